"""What arrived of each source, read from the stores' bytes with code of the tests' own: nothing
here is the programs'.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.support.ledger import bytes_of

NOT_WANTED = "not_wanted"
_NO_FILE = "first_run"
"""What an agent leaves that begins at the end of its files: it stands for no file (ADR 15)."""


class NotAsWrittenError(AssertionError):
    """Bytes in a store that no receiver may have written there."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: *header* is what stands in its header record, *records* what follows.

    It stands in [*offset*, *end*).
    """

    store: str
    segment: str
    offset: int
    end: int
    header: dict[str, Any]
    records: list[bytes]

    @property
    def kind(self) -> str:
        """What is in it."""
        return str(self.header["kind"])

    @property
    def source(self) -> str:
        """Whose it is."""
        return str(self.header["source"])

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among all of its source in one store: a source moves to another segment
        with an epoch only.
        """
        number, _, epoch = self.segment.rpartition("/")[2].partition(".#epoch.")
        return int(epoch), int(number), self.offset


@dataclass(slots=True)
class Arrived:
    """One source.

    *last* is the greatest position heard of; *open_gap*: more may be missing than gaps say.

    *ended* is why it ended, and *ends* has all reasons that were told: to two stores an agent may
    tell different ones.
    """

    source: str
    origin: str
    host: str
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    unwanted: list[tuple[int, int]] = field(default_factory=list)
    events: int = 0
    last: int = 0
    open_gap: bool = False
    ended: str | None = None
    ends: set[str] = field(default_factory=set)

    @property
    def intervals(self) -> list[tuple[int, int]]:
        """Where its pieces stand; those of several stores may overlap."""
        return [(start, start + len(data)) for start, data in self.pieces]

    @property
    def bytes(self) -> int:
        """How many bytes of the file arrived, each counted once."""
        return covered(self.intervals)

    @property
    def doubled(self) -> bool:
        """Whether some arrived more than once."""
        return self.bytes < sum(len(data) for _, data in self.pieces)

    @property
    def lost(self) -> int:
        """How many bytes before *last* neither arrived nor were declared not wanted."""
        return self.last - covered([*self.intervals, *self.unwanted])


def arrived(batches: Iterable[Batch]) -> dict[str, Arrived]:
    """Return all sources of files.

    Raises `NotAsWrittenError` where a header and its records say different things.
    """
    sources: dict[str, Arrived] = {}
    for batch in batches:
        header = batch.header
        if len(batch.records) != header["records"]:
            raise NotAsWrittenError(f"{header} has {len(batch.records)} records")
        if batch.kind == "foreign" or (header.get("mark") or {}).get("reason") == _NO_FILE:
            continue
        source = sources.setdefault(
            batch.source, Arrived(batch.source, header["origin"], header["attributes"]["host"])
        )
        if batch.kind == "data":
            _take_data(source, batch)
        else:
            _take_mark(source, batch)
        source.last = max(source.last, header["position"])
    return sources


def foreign_events(batches: Iterable[Batch]) -> list[bytes]:
    """Return what foreign peers sent; an event in pieces once its last one is there (rule R6)."""
    events: list[bytes] = []
    begun: dict[str, bytes] = {}
    for batch in batches:
        mark = batch.header.get("mark") if batch.kind == "foreign" else None
        if mark is not None and "event" in mark:
            whole = begun.pop(mark["event"], b"") + b"".join(batch.records)
            if len(whole) != mark["end"]:
                raise NotAsWrittenError(f"{mark} leaves {len(whole)} bytes of the event")
            if mark["end"] == mark["bytes"]:
                events.append(whole)
            else:
                begun[mark["event"]] = whole
        elif batch.kind == "foreign":
            events += batch.records
    return events


def _take_data(source: Arrived, batch: Batch) -> None:
    at, events = batch.header["previous"], 0
    for record in map(orjson.loads, batch.records):
        data, count = bytes_of(record)
        log = record["log"]
        # full records don't name their end
        if (log["offset"], log.get("end", at + len(data))) != (at, at + len(data)):
            raise NotAsWrittenError(f"{source.source}: {log} holds {len(data)} bytes after {at}")
        source.pieces.append((at, data))
        at, events = at + len(data), events + count
    if (at, events) != (batch.header["position"], batch.header["events"]):
        raise NotAsWrittenError(f"{source.source}: {events} events up to {at} below {batch.header}")
    source.events += events


def _take_mark(source: Arrived, batch: Batch) -> None:
    """Take a gap or an end."""
    log = orjson.loads(batch.records[0])["log"]
    mark = log["gap"] if batch.kind == "gap" else log["ended"]
    if mark != batch.header["mark"]:
        raise NotAsWrittenError(f"{source.source}: {log} below {batch.header}")
    begin = mark["start"] if batch.kind == "gap" else mark["end"]
    if (begin, mark["end"]) != (batch.header["previous"], batch.header["position"]):
        raise NotAsWrittenError(
            f"{source.source}: {mark} from {batch.header['previous']} to {batch.header['position']}"
        )
    if batch.kind == "gap" and mark["reason"] == NOT_WANTED:
        source.unwanted.append((begin, mark["end"]))
    elif not mark.get("end_exact", True):
        source.open_gap = True
    if batch.kind == "end":
        source.ended = mark["reason"]
        source.ends.add(mark["reason"])


def covered(intervals: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes *intervals* have together, those in several counted once."""
    total, reached = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
