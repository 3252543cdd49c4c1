"""Transactions: all of their data or nothing, across scalings, restarts and lost clients."""

from uuid import UUID

import pytest

from logdrive.store.streams import effects as following
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.errors import (
    LeaseError,
    NoSuchTransactionError,
    PreconditionError,
    StreamSealedError,
    TransactionEndedError,
)
from logdrive.wire.pravega.names import segment_id, segment_name, transaction_name
from tests.logdrive.store.streams.harness import SCOPE, STREAM, Rig, rig
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

OLD = [segment_id(0, 0), segment_id(1, 0)]


def name(number: int) -> str:
    return segment_name(SCOPE, STREAM, number)


async def written(there: Rig) -> UUID:
    """Begin a transaction and write into both of its segments."""
    key, segments = await there.transactions.begin_transaction(SCOPE, STREAM, 10_000)
    for segment in segments:
        await there.write(transaction_name(name(segment.id), key), f"<{segment.low}>".encode())
    return key


def test_committed_data_is_in_the_stream_and_aborted_data_is_not() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            await there.write(name(OLD[0]), b"before ")
            kept, dropped = await written(there), await written(there)
            assert (await there.transactions.get_transaction(SCOPE, STREAM, kept)).status == "open"
            await there.write(name(OLD[0]), b"between ")
            await there.transactions.commit_transaction(SCOPE, STREAM, kept)
            await there.transactions.commit_transaction(SCOPE, STREAM, kept)
            await there.transactions.abort_transaction(SCOPE, STREAM, dropped)
            assert (there.content(name(OLD[0])), there.content(name(OLD[1]))) == (
                b"before between <0.0>",
                b"<0.5>",
            )
            assert there.store.segments("logs/") == [name(OLD[0]), name(OLD[1])]
            with pytest.raises(TransactionEndedError):
                await there.transactions.abort_transaction(SCOPE, STREAM, kept)
            with pytest.raises(TransactionEndedError):
                await there.transactions.commit_transaction(SCOPE, STREAM, dropped)
            with pytest.raises(NoSuchTransactionError):
                await there.transactions.commit_transaction(SCOPE, STREAM, UUID(int=5))

    run(main())


def test_a_transaction_begun_before_a_scaling_is_committed_in_the_order_of_its_keys() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            key = await written(there)
            await there.streams.scale(SCOPE, STREAM, OLD, [(0.0, 1.0)])
            await there.write(name(segment_id(2, 1)), b"scaled")
            await there.transactions.commit_transaction(SCOPE, STREAM, key)
            stream = await there.streams.stream(SCOPE, STREAM)
            (now,) = layout.current_segments(stream)
            assert (now.low, now.high, now.id) == (0.0, 1.0, segment_id(5, 3))
            middle = [s for s, _ in layout.successors(stream, segment_id(2, 1))]
            assert [there.content(name(s.id)) for s in middle] == [b"<0.0>", b"<0.5>"]
            assert [[s.id for s, _ in layout.successors(stream, m.id)] for m in middle] == [
                [now.id],
                [now.id],
            ]
            info = there.store.info(name(middle[0].id))
            assert info is not None
            assert info.sealed

    run(main())


def test_the_id_has_the_epoch() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            await there.streams.scale(SCOPE, STREAM, OLD, [(0.0, 1.0)])
            key, _ = await there.transactions.begin_transaction(SCOPE, STREAM, 1000)
            assert key.int >> 96 == 1

    run(main())


def test_open_transactions_survive_a_restart_and_end_with_their_lease_or_stream() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk, clean=False) as there:
            await there.made()
            kept, left = await written(there), await written(there)
        async with rig(disk.killed()) as there:
            await there.transactions.abort_expired()
            await there.transactions.ping_transaction(SCOPE, STREAM, kept, 60_000)
            await there.transactions.ping_transaction(SCOPE, STREAM, left, 1_000)
            await there.catalog.clock.sleep(2.0)
            await there.transactions.abort_expired()
            assert (
                await there.transactions.get_transaction(SCOPE, STREAM, left)
            ).status == "aborted"
            assert (await there.transactions.get_transaction(SCOPE, STREAM, kept)).status == "open"
            await there.streams.seal(SCOPE, STREAM)
            assert (
                await there.transactions.get_transaction(SCOPE, STREAM, kept)
            ).status == "aborted"
            assert there.store.segments("logs/") == [name(OLD[0]), name(OLD[1])]
            with pytest.raises(StreamSealedError):
                await there.transactions.begin_transaction(SCOPE, STREAM, 1000)

    run(main())


def test_leases_are_limited_and_a_sealed_segment_keeps_a_transaction_open() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            for lease in (0, -1, 1 << 40):
                with pytest.raises(LeaseError):
                    await there.transactions.begin_transaction(SCOPE, STREAM, lease)
            key = await written(there)
            await there.store.seal(name(OLD[1]))
            with pytest.raises(PreconditionError):
                await there.transactions.commit_transaction(SCOPE, STREAM, key)
            assert there.content(name(OLD[0])) == b""

    run(main())


def test_ended_transactions_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "KEPT", 10)

    async def main() -> None:
        async with rig() as there:
            await there.made(1)
            keys = []
            for _ in range(15):
                key, _ = await there.transactions.begin_transaction(SCOPE, STREAM, 1000)
                await there.transactions.abort_transaction(SCOPE, STREAM, key)
                keys.append(key)
            with pytest.raises(NoSuchTransactionError):
                await there.transactions.get_transaction(SCOPE, STREAM, keys[4])
            assert (
                await there.transactions.get_transaction(SCOPE, STREAM, keys[5])
            ).status == "aborted"

    run(main())
