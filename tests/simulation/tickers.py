"""Foreign writers on a stream of their own that note the time they have come to, or leave; they
scale the stream, and cut its past off.

Each has a time of its own, which only its events move, far from that of the others. So what a
watermark says too early shows: an event that is older than it turns up behind it.
"""

import asyncio
from dataclasses import dataclass
from random import Random
from uuid import UUID

from logdrive.services.pravega.client.client import SegmentClient, connected
from logdrive.services.pravega.client.controller import StreamSegment
from logdrive.services.pravega.client.controller_grpc import GrpcController
from logdrive.services.pravega.server.controller.convert import parse_transaction_id
from logdrive.store.streams.names import mark_stream
from logdrive.wire.pravega.controller import controller_pb2 as pb
from logdrive.wire.pravega.names import segment_name
from tests.simulation.client import Client
from tests.simulation.hosts import CONTROLLER_PORT, FACE_PORT, SCOPE
from tests.simulation.operators import give_up_the_past, scaled
from tests.simulation.oracle import BrokenPromise
from tests.simulation.plan import LONG_PATIENCE_MS
from tests.support.memory_rpc import reaching
from tests.support.memory_transport import MemoryNetwork
from tests.support.watermarks import Watermark, watermarks_in

STREAM = "ticks"
MARK = segment_name(SCOPE, mark_stream(STREAM), 0)
PROMISE = "a watermark says what writers noted"
RECORD = b"%-10s %08d\n"
RECORD_BYTES = len(RECORD % (b"", 0))
_INFO = pb.StreamInfo(scope=SCOPE, stream=STREAM)
_SEGMENTS = 2
_PATIENCE_SECONDS = 15.0
_PAUSE_SECONDS = 2.0
_SCALED, _CUT_OFF, _LEAVES, _COMMIT = 0.15, 0.3, 0.3, 0.25
_LEASE_MS = 60_000
_MOST_EVENTS, _LONGEST_STEP, _APART = 3, 40, 2000


@dataclass(frozen=True, slots=True)
class Event:
    """An event of *time* that was acknowledged when its *segment* had *length* bytes; None where a
    transaction took it wherever.
    """

    time: int
    record: bytes
    segment: StreamSegment | None = None
    length: int = 0


@dataclass(slots=True)
class Spell:
    """While a writer must be waited for: from the watermark after the *since*th to the *until*th,
    without one to the last.

    *asked* is the latest time that it asked to be noted, *noted* the latest one that it was told is
    noted.
    """

    since: int
    asked: int
    noted: int
    until: int | None = None


class Ticker(Client):
    """Writes a few events and notes its time, or leaves, so many times more.

    Some write in transactions, and note times by committing.
    """

    def __init__(
        self, name: str, store: str, network: MemoryNetwork, random: Random, patience_ms: int
    ) -> None:
        super().__init__(name, store, network, random)
        self.patience_ms = patience_ms
        self.events: list[Event] = []
        self.asked: dict[int, None] = {}
        self.spells: list[Spell] = []
        self._time = random.randrange(_APART)
        self._commits = random.random() < _COMMIT
        self._position: dict[int, int] = {}
        self.seen: list[Watermark] = []
        """The watermarks that it has read."""

    @property
    def spell(self) -> Spell | None:
        """The present one."""
        return self.spells[-1] if self.spells and self.spells[-1].until is None else None

    async def _serve(self) -> None:
        host = self._network.host(self.name)
        async with reaching(host)(self._store, CONTROLLER_PORT, None, None) as controller:
            assert isinstance(controller, GrpcController)
            async with connected(host, self._store, FACE_PORT) as client:
                await self._create(controller)
                while self._left:
                    async with asyncio.timeout(_PATIENCE_SECONDS):
                        await self._one(controller, client)
                    self._left -= 1
                    await asyncio.sleep(self._random.expovariate(1 / _PAUSE_SECONDS))

    async def _create(self, controller: GrpcController) -> None:
        await controller.call("createScope", pb.ScopeInfo(scope=SCOPE), pb.CreateScopeStatus)
        policy = pb.ScalingPolicy(
            scaleType=pb.ScalingPolicy.FIXED_NUM_SEGMENTS, minNumSegments=_SEGMENTS
        )
        config = pb.StreamConfig(
            streamInfo=_INFO, scalingPolicy=policy, timestampAggregationTimeout=self.patience_ms
        )
        await controller.call("createStream", config, pb.CreateStreamStatus)

    async def _one(self, controller: GrpcController, client: SegmentClient) -> None:
        """Whatever comes between, it ends with an answer to what was noted, or to leaving:
        afterwards it is known who is waited for.
        """
        if not self._commits:
            segments = await controller.current(SCOPE, STREAM)
            for _ in range(self._random.randint(0, _MOST_EVENTS)):
                await self._write(client, self._random.choice(segments))
        if self._random.random() < _SCALED:
            await scaled(
                controller,
                self._random.choice(("split", "merge", "all")),
                self._random,
                stream=STREAM,
            )
            if self._random.random() < _CUT_OFF:
                await give_up_the_past(controller, stream=STREAM)
        if self.spell is not None and self._random.random() < _LEAVES:
            await self._leave(controller, client, self.spell)
        elif self._commits:
            await self._commit(controller, client)
        else:
            await self._note(controller, client)

    async def _write(self, client: SegmentClient, segment: StreamSegment) -> None:
        record, length = await self._append(client, segment.name)
        self.events.append(Event(self._time, record, segment, length))
        self._position[segment.id] = length

    async def _append(self, client: SegmentClient, segment: str) -> tuple[bytes, int]:
        self._time += self._random.randint(1, _LONGEST_STEP)
        record = RECORD % (self.name.encode(), self._time)
        writer = await client.set_up(segment, UUID(int=self._random.getrandbits(128)))
        return record, await writer.append([record], events=1, number=1)

    async def _commit(self, controller: GrpcController, client: SegmentClient) -> None:
        """Write one event in a transaction, and commit it with its time."""
        begun = await controller.call(
            "createTransaction",
            pb.CreateTxnRequest(streamInfo=_INFO, lease=_LEASE_MS),
            pb.CreateTxnResponse,
        )
        number = self._random.choice(begun.activeSegments).segmentId.segmentId
        transaction = parse_transaction_id(begun.txnId)
        record, _ = await self._append(
            client, f"{segment_name(SCOPE, STREAM, number)}#transaction.{transaction.hex}"
        )
        self._asks()
        request = pb.TxnRequest(
            streamInfo=_INFO, txnId=begun.txnId, writerId=self.name, timestamp=self._time
        )
        if (
            await controller.call("commitTransaction", request, pb.TxnStatus)
        ).status == pb.TxnStatus.SUCCESS:
            self.events.append(Event(self._time, record))
            await self._noted(client)

    async def _note(self, controller: GrpcController, client: SegmentClient) -> None:
        self._asks()
        position = pb.StreamCut(streamInfo=_INFO, cut=self._position)
        request = pb.TimestampFromWriter(writer=self.name, timestamp=self._time, position=position)
        result = (
            await controller.call("noteTimestampFromWriter", request, pb.TimestampResponse)
        ).result
        if result != pb.TimestampResponse.SUCCESS:
            self._breaks(
                PROMISE,
                f"{self.name} may not note {self._time}: "
                f"{pb.TimestampResponse.Status.Name(result)}",
            )
        else:
            await self._noted(client)

    def _asks(self) -> None:
        self.asked[self._time] = None
        if self.spell is not None:
            self.spell.asked = self._time

    async def _noted(self, client: SegmentClient) -> None:
        if self.spell is not None:
            self.spell.noted = self._time
        else:
            self.spells.append(Spell(await self._count(client), self._time, self._time))

    async def _leave(self, controller: GrpcController, client: SegmentClient, spell: Spell) -> None:
        spell.until = await self._count(client)
        request = pb.RemoveWriterRequest(writer=self.name, stream=_INFO)
        result = (await controller.call("removeWriter", request, pb.RemoveWriterResponse)).result
        if result != pb.RemoveWriterResponse.SUCCESS and self.patience_ms == LONG_PATIENCE_MS:
            self._breaks(
                PROMISE, f"{self.name} can't leave: {pb.RemoveWriterResponse.Status.Name(result)}"
            )

    async def _count(self, client: SegmentClient) -> int:
        """Return how many watermarks there are."""
        marks = await watermarks_of(client)
        if marks[: len(self.seen)] != self.seen:
            self._breaks("durable is durable", f"{MARK} no longer has what {self.name} read in it")
        self.seen = marks
        return len(marks)

    def _breaks(self, promise: str, what: str) -> None:
        self.broken = self.broken or BrokenPromise(promise, what)


async def watermarks_of(client: SegmentClient) -> list[Watermark]:
    """Return all watermarks of the stream. Raises `TransientError`."""
    state = await client.segment_info(MARK)
    if state is None:
        return []
    return watermarks_in(
        b"".join([piece async for piece in client.read_range(MARK, state.start, state.length)])
    )
