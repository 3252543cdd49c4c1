"""A stand-in for the pipeline: reads segments over the stores' faces while they grow, and keeps tables in memory.

Hopping, headers, cover and verdict are the pipeline's own; Spark, Arrow and Delta are left out. What was read once is kept, so
that a store which takes back what it has shown is found out.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import orjson

from logdrive.errors import LogdriveError
from logdrive.pipeline.audit import Head, Verdict, sources_of, verdict
from logdrive.pipeline.cover import Cover, Interval, intersect, size
from logdrive.pipeline.headers import BatchRow, HeaderRows
from logdrive.pipeline.hop import records, walk
from logdrive.pipeline.proof import Fault, Proof
from logdrive.sinks.blocking import Target
from logdrive.sinks.pravega_client import SegmentState, connected
from logdrive.sinks.reader_position import set_position
from logdrive.sinks.stream_places import placed
from logdrive.sinks.stream_reader import segments_of
from tests.simulation.hosts import CONTROLLER_PORT, FACE_PORT, READER, SCOPE, STREAM
from tests.simulation.plan import Plan
from tests.support.ledger import bytes_of
from tests.support.memory_rpc import reaching
from tests.support.memory_transport import MemoryNetwork

_PATIENCE_SECONDS = 5.0


class TakenBackError(AssertionError):
    """A store no longer has what it had shown."""


class CutTooFarError(AssertionError):
    """A store gave up what the reader still needs."""


@dataclass(frozen=True, slots=True)
class Row:
    """Some bytes of a source, from *start* on, and how many events they are."""

    start: int
    data: bytes
    events: int


@dataclass(slots=True)
class Batch:
    """One batch and what of it was kept."""

    store: str
    head: BatchRow
    rows: list[Row]
    foreign: list[bytes]


@dataclass
class Tables:
    """Everything read so far, of all stores."""

    seen: dict[tuple[str, str], bytearray] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    given_up: dict[tuple[str, str], None] = field(default_factory=dict)
    """Segments that somebody asked to be deleted."""
    starts: dict[tuple[str, str], int] = field(default_factory=dict)
    """Where each segment began when it was seen last."""
    told: dict[tuple[str, str], int] = field(default_factory=dict)
    """Up to where each is needed no more, as its store was told, or would have been."""
    _rows: HeaderRows = field(default_factory=lambda: HeaderRows(f"{SCOPE}/{STREAM}"))
    _cover: Cover = field(default_factory=Cover)
    _taken: dict[tuple[str, str], int] = field(default_factory=dict)
    _edges: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict)
    _largest: int = 0
    _begun: dict[str, bytes] = field(default_factory=dict)
    """Events in pieces that are not whole, by name."""

    def meet(self, store: str, segments: Sequence[str]) -> None:
        """Take in which segments of the stream *store* has. Raises `TakenBackError`."""
        known = [segment for there, segment in self.seen if there == store and (there, segment) not in self.given_up]
        if gone := [segment for segment in known if segment not in segments]:
            raise TakenBackError(f"{store} no longer has the segment {gone[0]}")

    def begin(self, store: str, state: SegmentState, *, again: bool) -> int:
        """Take in where a segment begins and ends, and return from where it is to be read. Raises `TakenBackError`."""
        place = store, state.segment
        known = len(self.seen.get(place, b""))
        if state.length < known:
            raise TakenBackError(f"{store} has {state.length} bytes of {state.segment}, of which {known} were read before")
        if state.start < self.starts.get(place, 0):
            raise TakenBackError(f"{state.segment} of {store} begins at {state.start}, and began at {self.starts[place]} before")
        if state.start > self.told.get(place, 0):
            raise CutTooFarError(f"{state.segment} of {store} begins at {state.start}, and was read to {self.told.get(place, 0)}")
        if state.start not in self._edges.get(place, {0: None}):
            raise CutTooFarError(f"{state.segment} of {store} begins at {state.start}, where no batch does")
        self.starts[place] = state.start
        return state.start if again else known

    def kept(self, store: str) -> int:
        """Return how many bytes *store* has of the stream, all of which was read."""
        there = [place for place in self.seen if place[0] == store and place not in self.given_up]
        return sum(len(self.seen[place]) - self.starts[place] for place in there)

    def spared(self, store: str, least: int) -> bool:
        """Tell whether retention has left *least* bytes of the stream in *store*, as far as whole batches allow."""
        cut = any(begin for place, begin in self.starts.items() if place[0] == store)
        return not cut or self.kept(store) + self._largest > least

    def needs_no_more(self, store: str, segment: str) -> int:
        """Return up to where a segment was read, by batches: it is about to be told that this is needed no more."""
        place = store, segment
        self.told[place] = self._taken.get(place, 0)
        return self.told[place]

    def add(self, store: str, segment: str, offset: int, data: bytes) -> None:
        """Take bytes of a segment, whatever was taken of it before. Raises `TakenBackError`."""
        place = store, segment
        seen = self.seen.setdefault(place, bytearray())
        known = seen[offset : offset + len(data)]
        if known != data[: len(known)] or offset > len(seen):
            raise TakenBackError(f"{store} has other bytes in {segment} than those read before, between {offset} and {offset + len(known)}")
        seen += data[len(known) :]
        at = self._taken.get(place, 0)
        for hop in walk(segment, at, bytes(seen[at:])):
            self._take(store, self._rows.row(segment, hop), bytes(seen[hop.body : hop.next]))
            self._taken[place] = hop.next
            self._edges.setdefault(place, {0: None})[hop.next] = None
            self._largest = max(self._largest, hop.next - hop.offset)

    def _take(self, store: str, head: BatchRow, body: bytes) -> None:
        batch = Batch(store, head, [], [])
        self.batches.append(batch)
        if head.kind == "foreign":
            batch.foreign = self._whole(head, list(records(body, 0, len(body))))
            head.rows = len(batch.foreign)
        elif head.kind == "data" and head.source is not None and head.previous is not None and head.position is not None:
            head.kept = self._cover.add(head.source, head.previous, head.position)
            batch.rows = list(_cut(_rows(body), head.kept))
            head.rows = sum(row.events for row in batch.rows)

    def _whole(self, head: BatchRow, payloads: list[bytes]) -> list[bytes]:
        """Return the events in *payloads*; those in pieces only with their last one (rule R6)."""
        if head.mark_start is None:
            return payloads
        event = head.mark_reason or ""
        begun = self._begun.pop(event, b"") if head.mark_start else b""
        if len(begun) != head.mark_start:
            raise TakenBackError(f"the event {event} goes on at {head.mark_start}, and {len(begun)} bytes of it are there")
        whole = begun + b"".join(payloads)
        if head.mark_exact:
            return [whole]
        self._begun[event] = whole
        return []

    def verdict(self) -> Verdict:
        """Return what the audit says."""
        heads = [Head(*(getattr(batch.head, name) for name in Head._fields)) for batch in self.batches]
        sources = sources_of(heads)
        faults = [fault for batch in self.batches if (fault := _fault(batch)) is not None]
        doubled = sum(_doubled(self.batches, source.source) for source in sources if source.doubled_bytes)
        rows = sum(batch.head.rows for batch in self.batches)
        return verdict(sources, Proof(rows, 0, 0, 0, 0, faults), doubled)


def _rows(body: bytes) -> Iterator[Row]:
    for payload in records(body, 0, len(body)):
        record = orjson.loads(payload)
        data, events = bytes_of(record)
        yield Row(record["log"]["offset"], data, events)


def _cut(rows: Iterator[Row], kept: Sequence[Interval]) -> Iterator[Row]:
    for row in rows:
        whole = (row.start, row.start + len(row.data))
        for start, end in intersect([whole], kept):
            if (start, end) == whole:
                yield row
            else:
                data = row.data[start - row.start : end - row.start]
                yield Row(start, data, max(1, data.count(b"\n")))


def _fault(batch: Batch) -> Fault | None:
    """Hold a batch's rows against its header, as rule A3 says."""
    head = batch.head
    if head.kind == "foreign":
        what = None if head.events == head.rows else "rows do not match the header"
    elif head.kind == "data" and head.previous is not None and head.position is not None and head.kept is not None:
        tiles = [(row.start, row.start + len(row.data)) for row in batch.rows]
        whole = size(head.kept) == head.position - head.previous
        what = "rows do not match the header" if whole and head.events != head.rows else None
        if sum(end - start for start, end in tiles) != size(head.kept) or size(intersect(tiles, head.kept)) != size(head.kept):
            what = "rows do not tile their interval"
    else:
        what = None
    return None if what is None else Fault(head.batch, head.source, head.path, head.kind, head.events, head.rows, 0, what)


def _doubled(batches: Sequence[Batch], source: str) -> int:
    starts = [row.start for batch in batches if batch.head.source == source for row in batch.rows]
    return len(starts) - len(dict.fromkeys(starts))


async def follow(network: MemoryNetwork, plan: Plan, tables: Tables, *, again: bool = False) -> list[str]:
    """Read on from where the tables end, or with *again* everything from the start; return the stores that could not be read."""
    away = []
    for store in plan.stores:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await _read(network, store, plan, tables, again=again)
        except (LogdriveError, TimeoutError):
            away.append(store)
    return away


async def _read(network: MemoryNetwork, store: str, plan: Plan, tables: Tables, *, again: bool) -> None:
    transport = network.host("reader")
    async with connected(transport, store, FACE_PORT) as client:
        if plan.scaled:
            found = await placed(transport, Target(store, CONTROLLER_PORT), SCOPE, STREAM, controllers=reaching(transport))
            states = [place.state for place in found]
        else:
            states = await segments_of(client, SCOPE, STREAM)
        tables.meet(store, [state.segment for state in states])
        for state in states:
            start = tables.begin(store, state, again=again)
            data = b"".join([piece async for piece in client.read_range(state.segment, start, state.length)])
            tables.add(store, state.segment, start, data)
            if plan.kept_bytes:
                offset = tables.needs_no_more(store, state.segment)
                await set_position(client, state.segment, READER, offset)
