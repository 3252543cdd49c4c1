"""Foreign writers of transactions, on a stream of their own that is scaled meanwhile.

Each transaction writes one record to every segment. So the stream shows at the end whether a
transaction is there whole, once, or not at all.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from uuid import UUID

from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.client.controller import StreamSegment
from logdrive.services.pravega.client.controller_grpc import GrpcController
from logdrive.services.pravega.client.errors import RequestRefusedError
from logdrive.services.pravega.reader.segments import locate_segments
from logdrive.services.pravega.server.controller.convert import parse_transaction_id
from logdrive.wire.pravega.controller import controller_pb2 as pb
from tests.simulation.hosts.programs import CONTROLLER_PORT, FACE_PORT, SCOPE
from tests.simulation.peers.client import Client
from tests.simulation.peers.operators import scaled
from tests.simulation.promises import BrokenPromise
from tests.support.memory.rpc import reaching
from tests.support.memory.transport import MemoryNetwork

STREAM = "payments"
_INFO = pb.StreamInfo(scope=SCOPE, stream=STREAM)
_RECORD = b"%-10s %06d %02d of %02d\n"
_RECORD_BYTES = len(_RECORD % (b"", 0, 0, 0))
_LEASE_MS = 15_000  # of a transaction
_PATIENCE_SECONDS = 15.0  # limit on the time of one transaction
_ABORTED = 0.2  # probability that a transaction is aborted
_SCALED = 0.15  # probability that the stream is scaled before a transaction ends
_PROMISE = "a transaction is there whole or not at all"


@dataclass(slots=True)
class Transaction:
    """One transaction, as its writer knows it."""

    records: list[bytes]  # one for each segment
    there: bool | None = False  # True: committed; None: the answer did not come


class TransactionWriter(Client):
    """A writer that writes one transaction for each action."""

    def __init__(self, name: str, store: str, network: MemoryNetwork, random: Random) -> None:
        super().__init__(name, store, network, random)
        self.transactions: list[Transaction] = []

    async def _serve(self) -> None:
        async with reaching(self._network.host(self.name))(
            self._store, CONTROLLER_PORT, None, None
        ) as controller:
            assert isinstance(controller, GrpcController)
            await controller.create_stream(SCOPE, STREAM, 2)
            while self._left:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._one(controller)

    async def _one(self, controller: GrpcController) -> None:
        begun = await controller.call_method(
            "createTransaction",
            pb.CreateTxnRequest(streamInfo=_INFO, lease=_LEASE_MS),
            pb.CreateTxnResponse,
        )
        segments = [_segment(segment) for segment in begun.activeSegments]
        number, mark = len(self.transactions), self.name.encode()
        transaction = Transaction(
            [_RECORD % (mark, number, part, len(segments)) for part in range(len(segments))]
        )
        self.transactions.append(transaction)
        self._left -= 1
        await self._write(parse_transaction_id(begun.txnId), segments, transaction)
        if self._random.random() < _SCALED:
            await scaled(
                controller,
                self._random.choice(("split", "merge", "all")),
                self._random,
                stream=STREAM,
            )
        await self._end(controller, begun.txnId, transaction)

    async def _write(
        self, name: UUID, segments: list[StreamSegment], transaction: Transaction
    ) -> None:
        async with connect_segment_store(
            self._network.host(self.name), self._store, FACE_PORT
        ) as client:
            for segment, record in zip(segments, transaction.records, strict=True):
                writer = await client.set_up_writer(
                    f"{segment.name}#transaction.{name.hex}",
                    UUID(int=self._random.getrandbits(128)),
                )
                await writer.append_data([record], events=1, number=1)

    async def _end(
        self, controller: GrpcController, name: pb.TxnId, transaction: Transaction
    ) -> None:
        request, commits = (
            pb.TxnRequest(streamInfo=_INFO, txnId=name),
            self._random.random() >= _ABORTED,
        )
        transaction.there = None if commits else False  # until the answer comes
        try:
            ended = await controller.call_method(
                "commitTransaction" if commits else "abortTransaction", request, pb.TxnStatus
            )
        except RequestRefusedError:
            transaction.there = False
        else:
            transaction.there = commits and ended.status == pb.TxnStatus.SUCCESS


def _segment(range_: pb.SegmentRange) -> StreamSegment:
    return StreamSegment(SCOPE, STREAM, range_.segmentId.segmentId, range_.minKey, range_.maxKey)


async def committed(network: MemoryNetwork, store: str) -> Counter[bytes]:
    """Return how often each record is in the stream. Raises `TransientError`."""
    transport = network.host("reader")
    data = b""
    async with connect_segment_store(transport, store, FACE_PORT) as client:
        for place in await locate_segments(
            transport,
            Target(store, CONTROLLER_PORT),
            SCOPE,
            STREAM,
            controllers=reaching(transport),
        ):
            data += b"".join(
                [
                    piece
                    async for piece in client.read_range(
                        place.state.segment, place.state.start, place.state.length
                    )
                ]
            )
    return Counter(data[at : at + _RECORD_BYTES] for at in range(0, len(data), _RECORD_BYTES))


def judge_transactions(writers: Iterable[TransactionWriter], stored: Counter[bytes]) -> None:
    """Raise `BrokenPromise` unless each transaction is there whole, as its writer knows it."""
    for writer in writers:
        for transaction in writer.transactions:
            times = [stored.pop(record, 0) for record in transaction.records]
            what = (
                f"{transaction.records[0]!r} and so on: there {times} times, told "
                f"{transaction.there}"
            )
            if (
                len(set(times)) > 1
                or times[0] > 1
                or transaction.there not in (None, times[0] == 1)
            ):
                raise BrokenPromise(_PROMISE, what)
    if stored:
        raise BrokenPromise(_PROMISE, f"nobody wrote {min(stored)!r}")
