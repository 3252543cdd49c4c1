"""Reads segments over the stores' faces while they grow, and keeps what it has read.

So a store that takes back what it has shown is noticed. The bytes are decoded twice: by the tests'
own code here, and by the pipeline's (`bronze`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from logdrive.address import S2Address
from logdrive.errors import LogdriveError
from logdrive.model.framing import frame_events
from logdrive.model.units import OffsetUnit
from logdrive.pipeline.audit.audit import Verdict
from logdrive.services.iggy.batches import BATCH_HEADER as IGGY_BATCH_HEADER
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.services.iggy.tail import end_of
from logdrive.services.iggy.topics import find_topic
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.reader.position import set_reader_position
from logdrive.services.pravega.reader.segments import locate_segments
from logdrive.services.pravega.reader.stream import list_first_segments
from logdrive.services.reader import SegmentState
from logdrive.services.s2.batches import BATCH_HEADER
from logdrive.services.s2.client.client import MISSING, S2Client
from logdrive.services.s2.client.target import target_of
from logdrive.wire.iggy.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
)
from logdrive.wire.iggy.messages.decode import IggyMessage, decode_polled
from logdrive.wire.iggy.messages.headers import decode_headers
from logdrive.wire.iggy.requests import PollMessages
from logdrive.wire.pravega.names import segment_name
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import command_of
from tests.simulation.hosts.programs import (
    BASIN,
    CONTROLLER_PORT,
    FACE_PORT,
    IGGY_PORT,
    READER,
    S2_PORT,
    SCOPE,
    STREAM,
)
from tests.simulation.judging.arrivals import Batch, NotAsWrittenError
from tests.simulation.judging.bronze import Bronze, bronze_of
from tests.simulation.judging.retaining import Retained
from tests.simulation.peers.faulty_iggy import foundation, read_framed
from tests.simulation.plan import Plan
from tests.support.iggy.faulty import FaultyIggy
from tests.support.ledger import whole_batches
from tests.support.memory.rpc import reaching
from tests.support.memory.transport import MemoryNetwork
from tests.support.virtual_time import EPOCH_MS

_CONSUMER = Consumer(ConsumerKind.CONSUMER, "simulator")
_PATIENCE_SECONDS = 5.0  # limit on the time for one store
S2_SEGMENT = segment_name(BASIN, STREAM, 0)
"""Name of the whole of an S2 stream in `Tables`."""


class TakenBackError(AssertionError):
    """A store no longer has what it had shown."""


class StoredTwiceError(AssertionError):
    """A batch that a receiver submitted once to S2, or to Iggy, stands there twice."""


class CutTooFarError(AssertionError):
    """A store gave up what the reader still needs."""


@dataclass
class Tables:
    """Everything read so far, of all stores."""

    # Keys of the dictionaries are a store and a segment.

    # the bytes read
    seen: dict[tuple[str, str], bytearray] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    # segments whose deletion a test has asked for
    given_up: dict[tuple[str, str], None] = field(default_factory=dict)
    # start of each segment when it was seen last
    starts: dict[tuple[str, str], int] = field(default_factory=dict)
    # the reader's position in each, as the store has it, or would have it with retention
    told: dict[tuple[str, str], int] = field(default_factory=dict)
    # number of records read of each S2 stream, and of messages of each partition of Iggy
    records: dict[tuple[str, str], int] = field(default_factory=dict)
    # number of each batch in an S2 stream or a partition of Iggy, by its id
    stored: dict[bytes, int] = field(default_factory=dict)
    # the faulty Iggy of the history; None if there is none
    peer: FaultyIggy | None = None
    # the batches that it has, or has acknowledged; without such a peer none
    ever: list[Batch] = field(default_factory=list)
    # what retention cut and left
    retained: Retained = field(default_factory=Retained)
    # offset behind the last whole batch
    _taken: dict[tuple[str, str], int] = field(default_factory=dict)
    # offsets between batches
    _edges: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict)
    # bytes of the largest batch
    _largest: int = 0

    def meet(self, store: str, segments: Sequence[str]) -> None:
        """Check the *segments* that *store* has of the stream. Raises `TakenBackError`."""
        known = [
            segment
            for other, segment in self.seen
            if other == store and (other, segment) not in self.given_up
        ]
        if missing := [segment for segment in known if segment not in segments]:
            raise TakenBackError(f"{store} no longer has the segment {missing[0]}")

    def begin(self, store: str, state: SegmentState, *, again: bool) -> int:
        """Check where a segment begins and ends; return the offset to read it from.

        Raises `TakenBackError`, `CutTooFarError`.
        """
        place = store, state.segment
        known = len(self.seen.get(place, b""))
        if state.length < known:
            raise TakenBackError(
                f"{store} has {state.length} bytes of {state.segment}, of which {known} "
                "were read before"
            )

        # retention: the start moves only forward, to a batch, and not beyond the reader
        if state.start < self.starts.get(place, 0):
            raise TakenBackError(
                f"{state.segment} of {store} begins at {state.start}, and began at "
                f"{self.starts[place]} before"
            )
        if state.start > self.told.get(place, 0):
            raise CutTooFarError(
                f"{state.segment} of {store} begins at {state.start}, and was read to "
                f"{self.told.get(place, 0)}"
            )
        if state.start not in self._edges.get(place, {0: None}):
            raise CutTooFarError(
                f"{state.segment} of {store} begins at {state.start}, where no batch does"
            )

        self.retained.begins(place, self.starts.get(place, 0), state.start, now_ms())
        self.starts[place] = state.start
        return state.start if again else known

    def kept(self, store: str) -> int:
        """Return how many bytes *store* has of the stream."""
        places = [place for place in self.seen if place[0] == store and place not in self.given_up]
        return sum(len(self.seen[place]) - self.starts[place] for place in places)

    def spared(self, store: str, least: int) -> bool:
        """Return whether retention has left *least* bytes in *store*, as far as batches allow."""
        cut = any(begin for place, begin in self.starts.items() if place[0] == store)
        return not cut or self.kept(store) + self._largest > least

    def needs_no_more(self, store: str, segment: str) -> int:
        """Return the reader's position in *segment*: behind the last whole batch.

        The caller stores it, so that retention may cut what is before it.
        """
        place = store, segment
        self.told[place] = self._taken.get(place, 0)
        return self.told[place]

    def add(self, store: str, segment: str, offset: int, data: bytes) -> None:
        """Add bytes of a segment; those read before must be the same. Raises `TakenBackError`."""
        place = store, segment
        seen = self.seen.setdefault(place, bytearray())
        known = seen[offset : offset + len(data)]
        if known != data[: len(known)] or offset > len(seen):
            raise TakenBackError(
                f"{store} has other bytes in {segment} than those read before, between "
                f"{offset} and {offset + len(known)}"
            )
        seen += data[len(known) :]

        at = self._taken.get(place, 0)
        try:
            for begin, end, header, records in whole_batches(bytes(seen[at:])):
                self.batches.append(Batch(store, segment, at + begin, at + end, header, records))
                self.retained.read(self.batches[-1], now_ms())
                self._taken[place] = at + end
                self._edges.setdefault(place, {0: None})[at + end] = None
                self._largest = max(self._largest, end - begin)
        except (AssertionError, ValueError, KeyError) as error:
            raise NotAsWrittenError(
                f"{segment} of {store} after {self._taken.get(place, 0)}: {error}"
            ) from error

    @property
    def events(self) -> int:
        """Count of the events in all batches; those sent twice count twice."""
        return sum(batch.header["events"] for batch in self.batches)

    def bronze(self) -> Bronze:
        """Return the tables that the pipeline makes of all segments."""
        unit: OffsetUnit = "bytes" if self.peer is None else "records"
        return bronze_of(f"{SCOPE}/{STREAM}", self.seen, unit)

    def verdict(self) -> Verdict:
        """Return the audit's verdict on these tables."""
        return self.bronze().verdict()


def now_ms() -> int:
    """Return the time of a clock that was never set, in ms since 1970."""
    return EPOCH_MS + int(asyncio.get_running_loop().time() * 1000)


async def follow(
    network: MemoryNetwork, plan: Plan, tables: Tables, *, again: bool = False
) -> list[str]:
    """Read all stores from where *tables* end, or with *again* from the start.

    Returns the stores that could not be read.
    """
    away = []
    for store in plan.stores:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await _read(network, store, plan, tables, again=again)
        except (LogdriveError, TimeoutError):
            away.append(store)
    return away


async def _read(
    network: MemoryNetwork, store: str, plan: Plan, tables: Tables, *, again: bool
) -> None:
    if tables.peer is not None:
        await _read_faulty(network, store, tables, tables.peer)
        return
    if plan.iggy:
        await _read_iggy(network, store, tables, again=again)
        return
    if plan.s2:
        await _read_s2(network, store, tables, again=again)
        return
    transport = network.host("reader")
    async with connect_segment_store(transport, store, FACE_PORT) as client:
        if plan.scaled:
            located = await locate_segments(
                transport,
                Target(store, CONTROLLER_PORT),
                SCOPE,
                STREAM,
                controllers=reaching(transport),
            )
            states = [place.state for place in located]
        else:
            states = await list_first_segments(client, SCOPE, STREAM)
        tables.meet(store, [state.segment for state in states])
        for state in states:
            start = tables.begin(store, state, again=again)
            data = b"".join(
                [piece async for piece in client.read_range(state.segment, start, state.length)]
            )
            tables.add(store, state.segment, start, data)
            if plan.retained:
                offset = tables.needs_no_more(store, state.segment)
                await set_reader_position(client, state.segment, READER, offset)


async def _read_s2(network: MemoryNetwork, store: str, tables: Tables, *, again: bool) -> None:
    """Read the stream as an S2 client does; what is kept are its records as Pravega's events."""
    place = store, S2_SEGMENT
    address = S2Address(store, S2_PORT, BASIN, STREAM)
    target = target_of(address, tls=None, plain=True, token=None, environ={})
    async with S2Client(network.host("reader"), target) as client:
        try:
            tail = (await client.check_tail(STREAM)).seq_num
        except S2Error as error:
            if error.code not in MISSING:
                raise
            tail = 0
        if tail < tables.records.get(place, 0):
            raise TakenBackError(f"{store} has {tail} records, fewer than before")
        if tail:
            tables.meet(store, [S2_SEGMENT])
            tables.starts[place] = 0
        at = 0 if again else tables.records.get(place, 0)
        offset = 0 if again else len(tables.seen.get(place, b""))
        while at < tail:
            records = (await client.read(STREAM, ReadQuery(seq_num=at))).records
            assert records[0].seq_num == at
            for record in records:
                for batch in (value for name, value in record.headers if name == BATCH_HEADER):
                    first = tables.stored.setdefault(batch, record.seq_num)
                    if first != record.seq_num:
                        raise StoredTwiceError(f"{first} and {record.seq_num} are one batch")
            data = frame_events([r.body for r in records if command_of(r) is None])
            tables.add(store, S2_SEGMENT, offset, data)
            at, offset = records[-1].seq_num + 1, offset + len(data)
            tables.records[place] = max(at, tables.records.get(place, 0))


async def _read_iggy(network: MemoryNetwork, store: str, tables: Tables, *, again: bool) -> None:
    """Read the topic as a client of Iggy does; what is kept are payloads as Pravega's events."""
    target = IggyTarget(store, IGGY_PORT)
    session = await open_session(network.host("reader"), target, random=Random(1))
    try:
        details = await find_topic(session, SCOPE, STREAM)
        ends = [end_of(one) for one in details.partitions] if details else []
        places = [(store, segment_name(SCOPE, STREAM, index)) for index in range(len(ends))]
        tables.meet(store, [segment for _, segment in places])
        for index, (place, end) in enumerate(zip(places, ends, strict=True)):
            if end < tables.records.get(place, 0):
                raise TakenBackError(f"{place[1]} has {end} messages, fewer than before")
            tables.starts[place] = 0
            at = 0 if again else tables.records.get(place, 0)
            offset = 0 if again else len(tables.seen.get(place, b""))
            while at < end:
                poll = PollMessages(
                    _CONSUMER, SCOPE, STREAM, index, PollingStrategy(PollingKind.OFFSET, at), 1000
                )
                polled = await session.request(poll)
                assert not isinstance(polled.batches, tuple)
                messages = list(decode_polled(session.revision, polled.batches))
                assert messages[0].offset == at
                _note_batches(tables, index, messages)
                data = frame_events([one.payload for one in messages])
                tables.add(*place, offset, data)
                at, offset = messages[-1].offset + 1, offset + len(data)
                tables.records[place] = max(at, tables.records.get(place, 0))
    finally:
        session.abort()


async def _read_faulty(
    network: MemoryNetwork, store: str, tables: Tables, peer: FaultyIggy
) -> None:
    """Read all of the topic anew, as the pipeline does: the peer may have lost what was there."""
    session = await open_session(
        network.host("reader"), IggyTarget(store, IGGY_PORT), random=Random(1)
    )
    try:
        framed = await read_framed(session, SCOPE, STREAM)
    finally:
        session.abort()
    tables.seen = {
        (store, segment_name(SCOPE, STREAM, index)): data for index, data in enumerate(framed)
    }
    tables.starts = dict.fromkeys(tables.seen, 0)
    tables.batches, tables.ever = foundation(peer, store, SCOPE, STREAM)


def _note_batches(tables: Tables, index: int, messages: Sequence[IggyMessage]) -> None:
    """Note where the batches are of which *messages* have the first ones; each has one place."""
    for message in messages:
        for key, value in decode_headers(message.headers):
            if key.data == IGGY_BATCH_HEADER.encode():
                here = message.offset << 16 | index
                first = tables.stored.setdefault(value.data, here)
                if first != here:
                    raise StoredTwiceError(
                        f"{first >> 16} and {message.offset} of partition {index} are one batch, "
                        f"{value.data.decode()}"
                    )
