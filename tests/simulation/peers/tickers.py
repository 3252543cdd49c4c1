"""Foreign writers that note their times on a stream of their own, scale it, and delete its past.

Each has a time of its own, which only its events advance, far from those of the others. So a
watermark that comes too early shows: an event that is older is behind its place.
"""

import asyncio
from dataclasses import dataclass
from random import Random
from uuid import UUID

from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.client.controller import StreamSegment
from logdrive.services.pravega.client.controller_grpc import GrpcController
from logdrive.services.pravega.server.controller.convert import parse_transaction_id
from logdrive.store.streams.names import mark_stream
from logdrive.wire.pravega.controller import controller_pb2 as pb
from logdrive.wire.pravega.names import segment_name
from tests.simulation.hosts.programs import CONTROLLER_PORT, FACE_PORT, SCOPE
from tests.simulation.peers.client import Client
from tests.simulation.peers.operators import give_up_the_past, scaled
from tests.simulation.plan import LONG_PATIENCE_MS
from tests.simulation.promises import BrokenPromise
from tests.support.memory.rpc import reaching
from tests.support.memory.transport import MemoryNetwork
from tests.support.watermarks import Watermark, watermarks_in

STREAM = "ticks"
MARK = segment_name(SCOPE, mark_stream(STREAM), 0)
PROMISE = "a watermark says what writers noted"
RECORD = b"%-10s %08d\n"
RECORD_BYTES = len(RECORD % (b"", 0))
_INFO = pb.StreamInfo(scope=SCOPE, stream=STREAM)
_SEGMENTS = 2
_PATIENCE_SECONDS = 15.0  # limit on the time of one action
_PAUSE_SECONDS = 2.0  # mean time between two actions
# probabilities
_SCALED = 0.15  # the stream is scaled
_CUT_OFF = 0.3  # after that its past is deleted
_LEAVES = 0.3  # a writer leaves
_COMMIT = 0.25  # a writer uses transactions
_LEASE_MS = 60_000  # of a transaction
_MOST_EVENTS = 3  # of one action
_LONGEST_STEP = 40  # between the times of two events of a writer
_APART = 2000  # limit on the times at which writers begin


@dataclass(frozen=True, slots=True)
class Event:
    """An event that was acknowledged."""

    time: int  # its writer's
    record: bytes
    segment: StreamSegment | None = None  # None: it came with a transaction
    length: int = 0  # of the segment, behind the event


@dataclass(slots=True)
class Spell:
    """A spell during which watermarks must wait for a writer.

    Spells are given by counts of watermarks.
    """

    since: int  # watermarks before it
    asked: int  # the latest time that the writer asked to note
    noted: int  # the latest time that was acknowledged
    until: int | None = None  # watermarks up to its end; None: it goes on


class Ticker(Client):
    """A writer whose actions are to write a few events and note its time, or to leave.

    Some write in transactions, and note times by committing.
    """

    def __init__(
        self, name: str, store: str, network: MemoryNetwork, random: Random, patience_ms: int
    ) -> None:
        super().__init__(name, store, network, random)
        # watermarks wait so long for a writer that notes no time
        self.patience_ms = patience_ms
        self.events: list[Event] = []
        # all times that it asked to note
        self.asked: dict[int, None] = {}
        self.spells: list[Spell] = []
        self._time = random.randrange(_APART)
        # True: it writes in transactions
        self._commits = random.random() < _COMMIT
        # segment id -> offset behind its last event there
        self._position: dict[int, int] = {}
        # the watermarks that it has read
        self.seen: list[Watermark] = []

    @property
    def spell(self) -> Spell | None:
        """The present spell; None if watermarks need not wait for this writer."""
        return self.spells[-1] if self.spells and self.spells[-1].until is None else None

    async def _serve(self) -> None:
        host = self._network.host(self.name)
        async with reaching(host)(self._store, CONTROLLER_PORT, None, None) as controller:
            assert isinstance(controller, GrpcController)
            async with connect_segment_store(host, self._store, FACE_PORT) as client:
                await self._create(controller)
                while self._left:
                    async with asyncio.timeout(_PATIENCE_SECONDS):
                        await self._one(controller, client)
                    self._left -= 1
                    await asyncio.sleep(self._random.expovariate(1 / _PAUSE_SECONDS))

    async def _create(self, controller: GrpcController) -> None:
        await controller.call_method("createScope", pb.ScopeInfo(scope=SCOPE), pb.CreateScopeStatus)
        policy = pb.ScalingPolicy(
            scaleType=pb.ScalingPolicy.FIXED_NUM_SEGMENTS, minNumSegments=_SEGMENTS
        )
        config = pb.StreamConfig(
            streamInfo=_INFO, scalingPolicy=policy, timestampAggregationTimeout=self.patience_ms
        )
        await controller.call_method("createStream", config, pb.CreateStreamStatus)

    async def _one(self, controller: GrpcController, client: SegmentClient) -> None:
        """Do one action, which ends with an answer to a noted time, or to leaving.

        Afterwards it is known whether watermarks wait for this writer.
        """
        if not self._commits:
            segments = await controller.current_segments(SCOPE, STREAM)
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
        writer = await client.set_up_writer(segment, UUID(int=self._random.getrandbits(128)))
        return record, await writer.append_data([record], events=1, number=1)

    async def _commit(self, controller: GrpcController, client: SegmentClient) -> None:
        """Write one event in a transaction, and commit it with its time."""
        begun = await controller.call_method(
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
            await controller.call_method("commitTransaction", request, pb.TxnStatus)
        ).status == pb.TxnStatus.SUCCESS:
            self.events.append(Event(self._time, record))
            await self._noted(client)

    async def _note(self, controller: GrpcController, client: SegmentClient) -> None:
        self._asks()
        position = pb.StreamCut(streamInfo=_INFO, cut=self._position)
        request = pb.TimestampFromWriter(writer=self.name, timestamp=self._time, position=position)
        result = (
            await controller.call_method("noteTimestampFromWriter", request, pb.TimestampResponse)
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
        result = (
            await controller.call_method("removeWriter", request, pb.RemoveWriterResponse)
        ).result
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
