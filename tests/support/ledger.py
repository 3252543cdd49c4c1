"""The tests' own judge: segment bytes in, per source the exact bytes delivered out.

Shares no code with the pipeline.

It knows the format from the rules alone: a batch is a header and records (R4, R5), records have the
forms of R1 or are one pack (R8), and the intervals of one source must follow on one another (A3).
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.support.packs import unpacked
from tests.support.record_bytes import pieces_of


@dataclass
class Delivered:
    """What arrived of one source: *data* from *start* on; gaps are (start, end, reason)."""

    source: str
    path: str
    attributes: dict[str, Any]
    position: int = 0
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    gaps: list[tuple[int, int, str]] = field(default_factory=list)
    ended: str | None = None
    events: int = 0

    @property
    def data(self) -> bytes:
        """All bytes delivered, in order."""
        return b"".join(piece for _, piece in self.pieces)


@dataclass
class Ledger:
    """Everything that the segments hold, checked while it was read."""

    sources: dict[str, Delivered] = field(default_factory=dict)
    foreign: list[bytes] = field(default_factory=list)
    unfinished: dict[str, bytes] = field(default_factory=dict)
    """Foreign events of which pieces are there and not the last (R6)."""
    buried: int = 0
    """Notes of dead letters (R7)."""

    @classmethod
    def read(cls, segments: Iterable[bytes]) -> "Ledger":
        """Read whole segments; any overlap, hole or inconsistency is an AssertionError."""
        ledger = cls()
        for segment in segments:
            for header, records in batches(segment):
                ledger._take(header, records)
        return ledger

    def by_data(self) -> dict[bytes, Delivered]:
        """Return the sources by what they delivered, for comparing with files whose names moved."""
        return {delivered.data: delivered for delivered in self.sources.values()}

    def _take(self, header: dict[str, Any], records: list[bytes]) -> None:
        assert len(records) == header["records"], f"{header} has {len(records)} records"
        if header["kind"] == "foreign":
            self._take_foreign(header["mark"], records)
            return
        attributes = header["attributes"]
        delivered = self.sources.setdefault(
            header["source"], Delivered(header["source"], attributes.get("path", ""), attributes)
        )
        assert delivered.ended is None, f"a run after the end record of {delivered.path}"
        assert header["previous"] == delivered.position, (
            f"{delivered.path}: previous {header['previous']} after position {delivered.position}"
        )
        if header["kind"] == "data":
            self._take_data(delivered, header, records)
        elif header["kind"] == "gap":
            mark = orjson.loads(records[0])["log"]["gap"]
            delivered.gaps.append((mark["start"], mark["end"], mark["reason"]))
        else:
            delivered.ended = orjson.loads(records[0])["log"]["ended"]["reason"]
        delivered.position = header["position"]

    def _take_foreign(self, mark: dict[str, Any] | None, records: list[bytes]) -> None:
        if mark is None:
            self.foreign += records
        elif "letter" in mark:
            assert not records
            self.buried += 1
        else:
            before = self.unfinished.pop(mark["event"], b"") if mark["start"] else b""
            whole = before + records[0]
            assert len(before) == mark["start"], (
                f"the piece at {mark['start']} follows {len(before)} bytes"
            )
            assert len(whole) == mark["end"], f"a piece to {mark['end']} ends at {len(whole)}"
            if len(whole) == mark["bytes"]:
                self.foreign.append(whole)
            else:
                self.unfinished[mark["event"]] = whole

    def _take_data(
        self, delivered: Delivered, header: dict[str, Any], records: list[bytes]
    ) -> None:
        if "form" in header:
            self._take_pack(delivered, header, records)
            return
        position, events = header["previous"], 0
        for record in map(orjson.loads, records):
            pieces, count, position = pieces_of(record, position)
            delivered.pieces += pieces
            events += count
        assert position == header["position"], (
            f"{delivered.path}: the run ends at {position}, its header says {header['position']}"
        )
        assert events == header["events"], (
            f"{delivered.path}: {events} events, the header says {header['events']}"
        )
        delivered.events += events

    def _take_pack(
        self, delivered: Delivered, header: dict[str, Any], records: list[bytes]
    ) -> None:
        assert len(records) == 1, f"{delivered.path}: {len(records)} packs"
        held = unpacked(records[0], header)
        delivered.pieces += held.pieces
        delivered.events += held.events


def batches(segment: bytes) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """Yield header and records of each batch, hopping as rule R5 says."""
    reached = 0
    for _, end, header, records in whole_batches(segment):
        yield header, records
        reached = end
    assert reached == len(segment), f"the batch at {reached} is cut short"


def whole_batches(segment: bytes) -> Iterator[tuple[int, int, dict[str, Any], list[bytes]]]:
    """Yield start, end, header and records of each whole batch in *segment*."""
    place = 0
    while (event := _event(segment, place)) is not None:
        payload, after = event
        assert payload.startswith(b'{"logdrive":{"v":'), f"no header at {place}: {payload[:60]!r}"
        header = orjson.loads(payload)["logdrive"]
        end, records = after + header["bytes"], []
        if end > len(segment):
            return
        while after < end:
            record = _event(segment, after)
            assert record is not None, f"the event at {after} does not fit the segment"
            records.append(record[0])
            after = record[1]
        assert after == end, f"the batch at {place} does not end where its header says"
        yield place, end, header, records
        place = end


def _event(segment: bytes, place: int) -> tuple[bytes, int] | None:
    """Return the payload of the event at *place* and its end; None if it is not whole."""
    if place + 8 > len(segment):
        return None
    kind, length = struct.unpack_from("!ii", segment, place)
    assert kind == 0, f"no event at {place}"
    end = place + 8 + length
    return (segment[place + 8 : end], end) if end <= len(segment) else None
