"""De-duplication: an id that a client chose is stored once, as long as it is known."""

import asyncio

import pytest

from logdrive.services.iggy.server.log.known_ids import Deduplication, KnownIds
from logdrive.store.limits import StoreLimits
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.messages.batches import SentBatch
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.log.harness import (
    append_foreign,
    messages,
    opened,
    partition,
    sent,
)
from tests.logdrive.store.harness import running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

ON = Deduplication(entries=100, seconds=60)


def with_ids(*ids: int, revision: Revision = Revision.R2C) -> SentBatch:
    return sent(*[StoredMessage(b"%d" % one, id=one) for one in ids], revision=revision)


async def ids(log: object) -> list[int]:
    return [one.id for one in await messages(log)]  # type: ignore[arg-type]


@pytest.mark.parametrize("revision", [Revision.R0, Revision.R1, Revision.R2C, Revision.R3])
def test_a_duplicate_is_acknowledged_and_skipped(revision: Revision) -> None:
    async def main() -> None:
        async with partition(deduplication=ON) as (log, _):
            assert (await log.append(with_ids(1, 2, 3, revision=revision))).messages == 3
            again = await log.append(with_ids(1, 2, 3, revision=revision))
            assert (again.first_offset, again.messages) == (None, 0)
            partly = await log.append(with_ids(3, 4, 5, 2, revision=revision))
            assert (partly.first_offset, partly.messages) == (3, 2)
            assert await ids(log) == [1, 2, 3, 4, 5]

    run(main())


def test_a_duplicate_within_one_send_is_skipped() -> None:
    async def main() -> None:
        async with partition(deduplication=ON) as (log, _):
            assert (await log.append(with_ids(1, 1, 2, 1))).messages == 2
            assert await ids(log) == [1, 2]

    run(main())


def test_messages_without_an_id_are_never_duplicates_and_without_the_setting_none_is() -> None:
    async def main() -> None:
        async with partition(deduplication=ON) as (log, _):
            for _ in range(3):
                await log.append(sent(b"same", b"same"))
            assert len(await messages(log)) == 6
        async with partition() as (log, _):
            for _ in range(3):
                await log.append(with_ids(1))
            assert await ids(log) == [1, 1, 1]

    run(main())


def test_ids_are_known_again_after_a_start_and_after_a_kill() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with partition(disk, ON) as (log, _):
            await log.append(with_ids(1, 2))
        async with running(disk, clean=False) as store:
            log = await opened(store, ON)
            assert (await log.append(with_ids(2, 3))).messages == 1
            dead = disk.killed()
        async with partition(dead, ON) as (log, _):
            assert (await log.append(with_ids(1, 2, 3, 4))).messages == 1
            assert await ids(log) == [1, 2, 3, 4]

    run(main())


@pytest.mark.parametrize("restart", [False, True])
def test_an_id_is_forgotten_after_so_many_messages(restart: bool) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        few = Deduplication(entries=10, seconds=60)
        async with partition(disk, few) as (log, _):
            await log.append(with_ids(1, 2))
            await log.append(sent(*[b"plain"] * 9))  # 2 is one of the last ten
            if not restart:
                assert (await log.append(with_ids(2))).messages == 0
                assert (await log.append(with_ids(1))).messages == 1
        if restart:
            async with partition(disk, few) as (log, _):
                assert (await log.append(with_ids(2))).messages == 0
                assert (await log.append(with_ids(1))).messages == 1

    run(main())


@pytest.mark.parametrize("restart", [False, True])
def test_an_id_is_forgotten_after_so_many_seconds(restart: bool) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with partition(disk, ON) as (log, store):
            await log.append(with_ids(1))
            await asyncio.sleep(50)
            await log.append(with_ids(2))
            await asyncio.sleep(15)
            if restart:
                await log.close()
                log = await opened(store, ON)
            assert (await log.append(with_ids(1, 2))).messages == 1
            assert await ids(log) == [1, 2, 1]
            if restart:
                await log.close()

    run(main())


def test_a_duplicate_of_a_message_under_way_waits_for_it() -> None:
    async def main() -> None:
        async with partition(deduplication=ON, delay=0.05) as (log, _):
            await log.append(with_ids(9))
            first = log.submit(with_ids(1, 2))
            second = log.submit(with_ids(2, 1))
            await asyncio.sleep(0.01)
            assert not second.done()
            assert (await second).messages == 0
            assert first.done()
            assert (await first).messages == 2

    run(main())


def test_ids_of_a_send_that_failed_halfway_are_no_duplicates_when_it_is_sent_again() -> None:
    async def main() -> None:
        disk, limits = MemoryDisk(), StoreLimits(pending=6000, group=3000)
        chosen = [StoredMessage(b"x" * 700, id=one) for one in range(1, 31)]
        async with partition(disk, ON, limits=limits, append_bytes=1500, delay=0.01) as (log, _):
            await log.append(with_ids(99))
            disk.capacity = disk.used() + 5000
            with pytest.raises(IggyError):
                await log.append(sent(*chosen))
            disk.capacity = None
            # those that became durable before it failed are duplicates, and the others are not
            left = 30 - (len(await messages(log)) - 1)
            assert 0 < left <= 30
            assert (await log.append(sent(*chosen))).messages == left
            assert await ids(log) == [99, *range(1, 31)]

    run(main())


def test_what_is_purged_is_no_duplicate_any_more() -> None:
    async def main() -> None:
        async with partition(deduplication=ON) as (log, _):
            await log.append(with_ids(1))
            await log.purge()
            assert (await log.append(with_ids(1))).first_offset == 1

    run(main())


def test_ids_are_found_among_what_other_faces_wrote() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with partition(disk, ON) as (log, store):
            await log.append(with_ids(1))
            await append_foreign(store, b"other", b"\xffS2", b"\xffIG\x01 and no envelope")
            await log.append(with_ids(2))
        async with partition(disk, ON) as (log, _):
            assert (await log.append(with_ids(1, 2, 3))).messages == 1

    run(main())


def test_a_send_of_more_ids_than_are_remembered_keeps_only_the_last_of_them() -> None:
    known = KnownIds(Deduplication(entries=3, seconds=60))
    assert known.sift([*range(1, 8), 7, 1], 0) == [*range(7), 8]
    assert len(known) == 3
    assert known.sift([7, 1, 6, 5], 0) == [3]
