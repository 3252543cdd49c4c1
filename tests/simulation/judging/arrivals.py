"""What arrived of each source, read from the stores' bytes.

The code is the tests' own, so that a mistake of the programs' decoding shows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.support.packs import DamagedPackError, unpacked
from tests.support.record_bytes import pieces_of

NOT_WANTED = "not_wanted"
SKIPPED = "skipped"
RESENT = "resent"
_NO_FILE = "first_run"
"""Reason in the mark of an agent that begins at the end of its files; no file's (ADR 15)."""


class NotAsWrittenError(AssertionError):
    """Bytes in a store that no receiver may have written there."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as read from a segment."""

    store: str  # the host that has it
    segment: str
    offset: int  # of its first byte, in the segment
    end: int  # offset behind its last byte
    header: dict[str, Any]  # from its header record
    records: list[bytes]  # the others

    @property
    def kind(self) -> str:
        """The kind that its header names, such as data or gap."""
        return str(self.header["kind"])

    @property
    def source(self) -> str:
        """The source that it belongs to."""
        return str(self.header["source"])

    @property
    def place(self) -> tuple[int, int, int]:
        """Sort key of the batches of one source in one store.

        A source moves to another segment only with a new epoch.
        """
        number, _, epoch = self.segment.rpartition("/")[2].partition(".#epoch.")
        return int(epoch), int(number), self.offset


@dataclass(slots=True)
class Arrived:
    """What arrived of one source of a file."""

    source: str
    origin: str
    host: str
    # position in the file, and the bytes there
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    # intervals between the pieces of data batches: bytes that a processor left out
    left_out: list[tuple[int, int]] = field(default_factory=list)
    # intervals that an operator had left out
    skipped: list[tuple[int, int]] = field(default_factory=list)
    # intervals that come with the next count
    resent: list[tuple[int, int]] = field(default_factory=list)
    # intervals that the agent was told not to send
    unwanted: list[tuple[int, int]] = field(default_factory=list)
    events: int = 0
    # the greatest position in any header
    last: int = 0
    # True: more may be missing than gaps say
    open_gap: bool = False
    # why it ended; None while it is open
    ended: str | None = None
    # all reasons in end records: an agent may send different ones to two stores
    ends: set[str] = field(default_factory=set)

    @property
    def intervals(self) -> list[tuple[int, int]]:
        """The intervals of its pieces; those of several stores may overlap."""
        return [(start, start + len(data)) for start, data in self.pieces]

    @property
    def bytes(self) -> int:
        """How many bytes of the file arrived, each counted once."""
        return covered(self.intervals)

    @property
    def sent(self) -> int:
        """How many bytes of the file arrived, or were left out on purpose, each counted once."""
        return covered([*self.intervals, *self.left_out, *self.skipped])

    @property
    def reach(self) -> int:
        """Where the last batch of data ends, in the order of arrival."""
        return max((end for _, end in (self.intervals[-1:] + self.left_out[-1:])), default=0)

    @property
    def doubled(self) -> bool:
        """True if some bytes arrived more than once."""
        return self.bytes < sum(len(data) for _, data in self.pieces)

    @property
    def lost(self) -> int:
        """How many bytes before *last* neither arrived nor were left out on purpose."""
        return self.last - covered(
            [*self.intervals, *self.left_out, *self.skipped, *self.resent, *self.unwanted]
        )


def arrived(batches: Iterable[Batch]) -> dict[str, Arrived]:
    """Return all sources of files, by id.

    Raises `NotAsWrittenError` if a header does not agree with its records.
    """
    sources: dict[str, Arrived] = {}
    for batch in batches:
        header = batch.header
        if len(batch.records) != header["records"]:
            raise NotAsWrittenError(f"{header} has {len(batch.records)} records")
        # no sources of files
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
    """Return the events of foreign peers; of those in pieces, the whole ones (rule R6)."""
    events: list[bytes] = []
    begun: dict[str, bytes] = {}
    for batch in batches:
        mark = batch.header.get("mark") if batch.kind == "foreign" else None
        if mark is not None and "event" in mark:
            whole = begun.pop(mark["event"], b"") + b"".join(batch.records)
            if len(whole) != mark["end"]:
                raise NotAsWrittenError(f"{mark} leaves {len(whole)} bytes of the event")
            if mark["end"] == mark["bytes"]:  # the last piece
                events.append(whole)
            else:
                begun[mark["event"]] = whole
        elif batch.kind == "foreign":
            events += batch.records
    return events


def _take_data(source: Arrived, batch: Batch) -> None:
    if "form" in batch.header:
        _take_pack(source, batch)
        return
    at, events, pieces = batch.header["previous"], 0, list[tuple[int, bytes]]()
    for record in map(orjson.loads, batch.records):
        # single records leave out what is before their place
        start = max(at, record["log"]["offset"])
        try:
            more, count, at = pieces_of(record, start)
        except AssertionError as error:
            raise NotAsWrittenError(f"{source.source}: {error}") from error
        pieces += more
        events += count
    left_out = list(_between(pieces, batch.header["previous"], batch.header["position"]))
    skipped = sum(end - start for start, end in left_out)
    found = max(at, *(end for _, end in left_out), 0), events, skipped
    said = tuple(batch.header[name] for name in ("position", "events", "skipped"))
    if found != said:
        raise NotAsWrittenError(
            f"{source.source}: position, events, skipped are {found} below {batch.header}"
        )
    source.pieces += pieces
    source.left_out += left_out
    source.events += events


def _take_pack(source: Arrived, batch: Batch) -> None:
    if len(batch.records) != 1:
        raise NotAsWrittenError(f"{source.source}: {len(batch.records)} packs below {batch.header}")
    try:
        held = unpacked(batch.records[0], batch.header)
    except DamagedPackError as error:
        raise NotAsWrittenError(f"{source.source}: {error}") from error
    source.pieces += held.pieces
    source.left_out += _between(held.pieces, batch.header["previous"], batch.header["position"])
    source.events += held.events


def _between(
    pieces: Iterable[tuple[int, bytes]], start: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield what *pieces*, in their order, lack of the interval from *start* to *end*."""
    for begin, data in pieces:
        if start < begin:
            yield start, begin
        start = begin + len(data)
    if start < end:
        yield start, end


def _take_mark(source: Arrived, batch: Batch) -> None:
    """Add the gap or the end in *batch* to *source*."""
    log = orjson.loads(batch.records[0])["log"]
    mark = log["gap"] if batch.kind == "gap" else log["ended"]
    if mark != batch.header["mark"]:
        raise NotAsWrittenError(f"{source.source}: {log} below {batch.header}")

    # an end has no bytes: it begins where it ends
    begin = mark["start"] if batch.kind == "gap" else mark["end"]
    if (begin, mark["end"]) != (batch.header["previous"], batch.header["position"]):
        raise NotAsWrittenError(
            f"{source.source}: {mark} from {batch.header['previous']} to {batch.header['position']}"
        )

    if batch.kind == "gap" and mark["reason"] == NOT_WANTED:
        source.unwanted.append((begin, mark["end"]))
    elif batch.kind == "gap" and mark["reason"] == SKIPPED:
        source.skipped.append((begin, mark["end"]))
    elif batch.kind == "gap" and mark["reason"] == RESENT:
        source.resent.append((begin, mark["end"]))
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
