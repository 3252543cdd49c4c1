"""Sends: durable before they are acknowledged, in order, among what other faces append."""

import asyncio

import pytest

from logdrive.services.iggy.server.log.known_ids import Deduplication
from logdrive.store.limits import StoreLimits
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.log.harness import (
    append_foreign,
    append_raw,
    messages,
    opened,
    partition,
    payloads,
    sent,
)
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import EPOCH_MS, run

REVISIONS = [Revision.R0, Revision.R1, Revision.R2C, Revision.R3]


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_acknowledged_is_there_after_a_kill(revision: Revision) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, delay=0.01, clean=False) as store:
            log = await opened(store)
            first = await log.append(sent(b"one", b"two", revision=revision))
            second = await log.append(sent(b"three", revision=revision))
            lost = log.submit(sent(b"never acknowledged", revision=revision))
            dead = disk.killed()
            assert not lost.done()
            lost.cancel()
        assert (first.first_offset, first.messages) == (0, 2)
        assert (second.first_offset, second.messages) == (2, 1)
        async with partition(dead) as (log, _):
            found = payloads(await messages(log))
            assert found[:3] == [b"one", b"two", b"three"]
            assert set(found[3:]) <= {b"never acknowledged"}

    run(main())


def test_offsets_are_the_same_whoever_appends_between() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with partition(disk, delay=0.01) as (log, store):
            answers, foreign = [], []
            for n in range(20):
                answers.append(log.submit(sent(*[b"%d" % n] * (1 + n % 3))))
                foreign.append(asyncio.create_task(append_foreign(store, *[b"other"] * (n % 3))))
                await asyncio.sleep(0)
            offsets = [(await answer).first_offset for answer in answers]
            await asyncio.gather(*foreign)
            found = await messages(log)
            assert [one.offset for one in found] == list(range(len(found)))
            for n, offset in enumerate(offsets):
                assert offset is not None
                own = payloads(found)[offset : offset + 1 + n % 3]
                assert own == [b"%d" % n] * (1 + n % 3)
            assert payloads(found).count(b"other") == sum(n % 3 for n in range(20))
        async with partition(disk) as (log, _):
            assert payloads(await messages(log)) == payloads(found)

    run(main())


def test_a_message_has_the_time_of_its_append_and_the_origin_that_its_client_gave() -> None:
    async def main() -> None:
        async with partition() as (log, _):
            await asyncio.sleep(5)
            appended = await log.append(sent(StoredMessage(b"a", id=9, origin=77), b"plain"))
            chosen, plain = await messages(log)
            assert appended.time_us == chosen.timestamp == plain.timestamp
            assert 0 <= chosen.timestamp - (EPOCH_MS + 5000) * 1000 < 1000
            assert (chosen.id, chosen.origin) == (9, 77)
            assert plain.id != 0
            assert plain.origin == plain.timestamp

    run(main())


def test_ids_that_no_client_chose_are_the_same_at_every_poll_and_differ_by_message() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with partition(disk) as (log, _):
            await log.append(sent(*[b"x"] * 5))
            before = [one.id for one in await messages(log)]
            assert len(set(before)) == 5
            assert 0 not in before
        async with partition(disk) as (log, _):
            assert [one.id for one in await messages(log)] == before

    run(main())


def test_a_send_longer_than_an_append_is_stored_whole_and_in_order() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        texts = [b"%04d" % n + b"x" * (n % 50) for n in range(500)]
        async with partition(disk, append_bytes=1000, delay=0.01) as (log, store):
            first = log.submit(sent(*texts))
            second = log.submit(sent(b"last"))
            assert (await first).messages == 500
            assert (await second).first_offset == 500
            assert payloads(await messages(log)) == [*texts, b"last"]
            assert store.append_at(SEGMENT, 0).length <= 1000

    run(main())


def test_a_message_longer_than_an_append_is_refused_and_nothing_of_its_send_is_stored() -> None:
    async def main() -> None:
        async with partition(append_bytes=1000) as (log, _):
            with pytest.raises(IggyError) as refusal:
                await log.append(sent(b"short", b"x" * 993))
            assert refusal.value.code(Revision.R2C) == 4022
            await log.append(sent(b"x" * 992))
            assert len(await messages(log)) == 1

    run(main())


def test_sends_wait_for_room_in_the_store_in_their_order() -> None:
    async def main() -> None:
        limits = StoreLimits(pending=8000, group=3000)
        async with partition(limits=limits, append_bytes=3000, delay=0.01) as (log, _):
            answers = [log.submit(sent(*[b"%03d" % n + b"x" * 500] * 9)) for n in range(30)]
            assert [(await answer).first_offset for answer in answers] == [9 * n for n in range(30)]
            assert len(await messages(log)) == 270

    run(main())


def test_a_full_disk_fails_sends_and_they_can_be_sent_again() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with partition(disk, Deduplication(), delay=0.01) as (log, _):
            await log.append(sent(b"first"))
            disk.capacity = disk.used()
            batch = sent(*[StoredMessage(b"x" * 5000, id=n) for n in range(1, 4)])
            same = sent(*[StoredMessage(b"x" * 5000, id=n) for n in range(1, 4)])
            answers = [log.submit(batch), log.submit(same)]
            for answer in answers:
                with pytest.raises(IggyError) as failure:
                    await answer
                assert failure.value.retryable
            disk.capacity = None
            # neither is taken for a duplicate of what was never stored
            assert (await log.append(batch)).messages == 3
            assert (await log.append(same)).messages == 0
            assert len(await messages(log)) == 4

    run(main())


def test_a_sealed_or_deleted_partition_takes_nothing_nor_one_with_half_a_message() -> None:
    async def main() -> None:
        async with partition() as (log, store):
            await append_raw(store, b"\0\0\0\0\0\0\0\x08half")
            with pytest.raises(IggyError) as error:
                await log.append(sent(b"a"))
            assert error.value.reason is Reason.CANNOT_APPEND
            await append_raw(store, b"rest")
            assert (await log.append(sent(b"a"))).first_offset == 1
            await store.seal(SEGMENT)
            with pytest.raises(IggyError) as error:
                await log.append(sent(b"b"))
            assert error.value.reason is Reason.SEGMENT_CLOSED
            assert payloads(await messages(log)) == [b"halfrest", b"a"]
            await store.delete(SEGMENT)
            with pytest.raises(IggyError) as error:
                await log.append(sent(b"b"))
            assert error.value.reason is Reason.PARTITION_NOT_FOUND
            assert not log.is_current

    run(main())


def test_a_partition_that_closes_answers_what_was_sent() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=0.01) as store:
            log = await opened(store)
            answers = [log.submit(sent(b"x")) for _ in range(5)]
            assert not log.is_idle
            await log.close()
            assert [(await answer).first_offset for answer in answers] == list(range(5))
            assert log.is_idle
            with pytest.raises(IggyError):
                log.submit(sent(b"late"))

    run(main())
