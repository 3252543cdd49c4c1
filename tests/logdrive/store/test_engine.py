"""What the store promises to a process that uses it correctly, and what it refuses."""

import asyncio

import pytest

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT
from logdrive.store.errors import (
    NoSuchSegmentError,
    NumberMismatchError,
    OffsetMismatchError,
    OverloadedError,
    SegmentSealedError,
    StoreInUseError,
)
from logdrive.store.limits import StoreLimits
from tests.logdrive.store.harness import (
    OTHER,
    PATH,
    SEGMENT,
    WRITER,
    content,
    opened,
    running,
    submit,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


def test_what_was_appended_is_read_back_with_its_number() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            assert await store.create(SEGMENT)
            assert await submit(store, [b"head", b"", b"record"], 5) == 10
            assert await submit(store, b"more", 9) == 14
            assert content(store) == b"headrecordmore"
            assert store.read(SEGMENT, 3, 4) == b"drec"
            assert store.read(SEGMENT, 12, 100) == b"re"
            assert store.read(SEGMENT, 14, 100) == store.read(SEGMENT, 99, 1) == b""
            assert await store.number(SEGMENT, WRITER) == 9
            assert await store.number(SEGMENT, OTHER) == ABSENT
            info = store.info(SEGMENT)
            assert info is not None
            assert (info.length, info.start, info.sealed, info.events) == (14, 0, False, 2)

    run(main())


def test_everything_is_there_after_a_clean_stop_and_after_none() -> None:
    async def main(clean: bool) -> None:
        disk = MemoryDisk()
        async with running(disk, clean=clean) as store:
            first_id = store.store_id
            await store.create(SEGMENT)
            await store.create("other")
            await submit(store, b"one", 1)
            await submit(store, b"two", 7, segment="other", writer=OTHER)
            await store.update(SEGMENT, OTHER, ABSENT, -5)
            await store.seal("other")
            before = [store.info(name) for name in store.segments()]
        async with running(disk) as store:
            assert store.store_id == first_id
            assert store.segments() == [SEGMENT, "other"]
            assert store.segments("oth") == ["other"]
            assert [store.info(name) for name in store.segments()] == before
            assert content(store) == b"one"
            assert content(store, "other") == b"two"
            assert await store.number("other", OTHER) == 7
            assert store.attribute(SEGMENT, OTHER) == -5
            assert store.recovery.index == ("used" if clean else "missing")
            assert store.recovery.entries == (0 if clean else 6)
            with pytest.raises(SegmentSealedError):
                submit(store, b"x", 8, segment="other", writer=OTHER)
            await submit(store, b" and on", 2)
            assert content(store) == b"one and on"

    run(main(True))
    run(main(False))


def test_a_number_is_compared_with_what_was_submitted_last_pending_or_not() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            await store.create(SEGMENT)
            first = store.append(SEGMENT, b"a", writer=WRITER, expected=ABSENT, number=10, events=1)
            second = store.append(SEGMENT, b"b", writer=WRITER, expected=10, number=20, events=1)
            for expected, number in ((ABSENT, 30), (10, 30), (20, 20), (20, 15), (None, 20)):
                with pytest.raises(NumberMismatchError) as refused:
                    store.append(
                        SEGMENT, b"x", writer=WRITER, expected=expected, number=number, events=1
                    )
                assert refused.value.current == 20
            assert not first.done()
            assert store.submitted_number(SEGMENT, WRITER) == 20
            assert store.attribute(SEGMENT, WRITER) == ABSENT
            await second
            third = store.append(SEGMENT, b"c", writer=WRITER, expected=None, number=21, events=1)
            assert await third == 3
            assert content(store) == b"abc"

    run(main())


def test_d2_a_number_is_told_only_once_it_is_durable() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            await store.create(SEGMENT)
            acknowledged = submit(store, b"x", 5)
            asking = asyncio.create_task(store.number(SEGMENT, WRITER))
            await asyncio.sleep(0.5)
            assert store.info(SEGMENT).length == 0  # type: ignore[union-attr]
            assert store.read(SEGMENT, 0, 10) == b""
            assert not asking.done()
            assert await asking == 5
            assert acknowledged.done()

    run(main())


def test_s2_a_number_waits_for_what_its_submitter_no_longer_waits_for() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            await store.create(SEGMENT)
            submit(store, b"x", 5).cancel()
            assert await store.number(SEGMENT, WRITER) == 5
            assert content(store) == b"x"

    run(main())


def test_an_offset_is_compared_after_the_number_with_all_that_is_submitted() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            submit(store, b"12345", 1)
            with pytest.raises(NumberMismatchError):
                store.append(
                    SEGMENT, b"x", writer=WRITER, expected=7, number=8, events=1, expected_offset=99
                )
            with pytest.raises(OffsetMismatchError) as refused:
                store.append(
                    SEGMENT, b"x", writer=WRITER, expected=1, number=2, events=1, expected_offset=0
                )
            assert refused.value.current == 5
            assert (
                await store.append(
                    SEGMENT, b"x", writer=WRITER, expected=1, number=2, events=1, expected_offset=5
                )
                == 6
            )

    run(main())


def test_creating_twice_says_so_only_once_it_is_durable() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            first, second = store.create(SEGMENT), store.create(SEGMENT)
            await asyncio.sleep(0.5)
            assert not second.done()
            assert store.info(SEGMENT) is None
            assert (await first, await second, await store.create(SEGMENT)) == (True, False, False)
            for name in ("", "x" * 1025):
                with pytest.raises(ValueError, match="segment's name"):
                    store.create(name)

    run(main())


def test_a_segment_can_be_appended_to_before_its_creation_is_durable() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            created, other = store.create(SEGMENT), store.create("other")
            length = submit(store, b"abc", 1)
            submit(store, b"xy", 1, segment="other")
            assert await store.number(SEGMENT, WRITER) == 1
            assert (await created, await other, await length) == (True, True, 3)
            assert content(store, "other") == b"xy"

    run(main())


def test_unknown_segments_are_refused() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            assert store.info("none") is None
            for ask in (
                lambda: submit(store, b"x", 1, segment="none"),
                lambda: store.seal("none"),
                lambda: store.update("none", WRITER, None, 1),
                lambda: store.read("none", 0, 1),
                lambda: store.attribute("none", WRITER),
            ):
                with pytest.raises(NoSuchSegmentError):
                    ask()
            with pytest.raises(NoSuchSegmentError):
                await store.number("none", WRITER)
            with pytest.raises(NoSuchSegmentError):
                await store.wait_for_data("none", 0, 1)

    run(main())


def test_a_sealed_segment_takes_nothing_more_from_the_moment_of_the_request() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            await store.create(SEGMENT)
            last = submit(store, b"last", 1)
            sealed = store.seal(SEGMENT)
            with pytest.raises(SegmentSealedError):
                submit(store, b"late", 2)
            with pytest.raises(SegmentSealedError):
                store.seal(SEGMENT)
            await sealed
            assert last.done()
            assert store.info(SEGMENT).sealed  # type: ignore[union-attr]
            assert content(store) == b"last"
            assert await store.number(SEGMENT, WRITER) == 1

    run(main())


def test_attributes_are_compared_and_set_and_writers_are_attributes() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            await store.create(SEGMENT)
            assert await store.update(SEGMENT, OTHER, ABSENT, 3)
            assert not await store.update(SEGMENT, OTHER, ABSENT, 4)
            won, lost = store.update(SEGMENT, OTHER, 3, 5), store.update(SEGMENT, OTHER, 3, 6)
            await asyncio.sleep(0.5)
            # a lost race counts as done (S3), so the winner must be durable first
            assert not lost.done()
            assert (await won, await lost) == (True, False)
            assert store.attribute(SEGMENT, OTHER) == 5
            await submit(store, b"x", 9, writer=OTHER)
            assert store.attribute(SEGMENT, OTHER) == 9
            assert await store.update(SEGMENT, OTHER, None, ABSENT)
            assert await store.number(SEGMENT, OTHER) == ABSENT
            with pytest.raises(ValueError, match="64 bits"):
                store.update(SEGMENT, OTHER, None, 1 << 63)

    run(main())


def test_an_attribute_set_back_and_forth_while_pending_ends_as_the_last_said() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), StoreLimits(group=1), delay=1.0) as store:
            await store.create(SEGMENT)
            updates = [store.update(SEGMENT, OTHER, None, value) for value in (1, 2, 1, 7, 1)]
            await updates[0]
            assert store.submitted_number(SEGMENT, OTHER) == 1
            assert not await store.update(SEGMENT, OTHER, 2, 3)
            assert [await update for update in updates] == [True] * 5
            assert store.attribute(SEGMENT, OTHER) == 1

    run(main())


def test_tail_waits_end_with_data_with_a_seal_or_with_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with running(MemoryDisk(), delay=1.0) as store:
            await store.create(SEGMENT)
            started = loop.time()
            assert not await store.wait_for_data(SEGMENT, 0, 10.0)
            assert loop.time() - started == 10.0
            waits = [
                asyncio.create_task(store.wait_for_data(SEGMENT, offset, 60.0))
                for offset in (0, 0, 2, 3)
            ]
            waits[1].cancel()
            await submit(store, b"abc", 1)
            await asyncio.sleep(0)
            assert [wait.done() for wait in waits] == [True, True, True, False]
            assert waits[0].result()
            await store.seal(SEGMENT)
            assert await waits[3]
            assert await store.wait_for_data(SEGMENT, 1000, 60.0)

    run(main())


def test_too_much_pending_is_refused_and_room_comes_back() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), StoreLimits(pending=10_000), delay=1.0) as store:
            await store.create(SEGMENT)
            first = submit(store, bytes(20_000), 1)  # one alone is always taken
            with pytest.raises(OverloadedError):
                submit(store, b"x", 2)
            assert store.submitted_number(SEGMENT, WRITER) == 1
            await store.room(1)
            assert first.done()
            assert await submit(store, b"x", 2) == 20_001

    run(main())


def test_room_is_there_for_the_size_asked_for_or_once_nothing_is_pending() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), StoreLimits(pending=10_000), delay=1.0) as store:
            await store.create(SEGMENT)
            first = submit(store, bytes(4_000), 1)
            await store.room(4_000)  # it fits beside the first
            assert not first.done()
            too_many = asyncio.create_task(store.room(4_000, 4_000))
            larger_than_all = asyncio.create_task(store.room(20_000))
            await asyncio.sleep(0)
            assert [too_many.done(), larger_than_all.done()] == [False, False]
            await asyncio.gather(too_many, larger_than_all)
            assert first.done()
            assert await submit(store, bytes(20_000), 2) == 24_000

    run(main())


def test_who_waits_for_room_goes_on_when_the_store_closes() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), StoreLimits(pending=10_000), delay=1.0) as store:
            await store.create(SEGMENT)
            submit(store, bytes(9_000), 1)
            waiting = asyncio.create_task(store.room(9_000))
            await asyncio.sleep(0)
            await store.close()
            async with asyncio.timeout(5):
                await waiting

    run(main())


def test_an_append_beyond_the_limit_is_refused_before_it_is_queued() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), StoreLimits(entry=10)) as store:
            await store.create(SEGMENT)
            for data, events in ((bytes(11), 1), (b"x", -1), (b"x", 1 << 32)):
                with pytest.raises(ValueError, match="up to"):
                    store.append(
                        SEGMENT, data, writer=WRITER, expected=None, number=1, events=events
                    )
            assert store.submitted_number(SEGMENT, WRITER) == ABSENT
            assert await submit(store, bytes(10), 1) == 10

    run(main())


def test_a_store_that_is_held_is_refused_by_name() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            with pytest.raises(StoreInUseError, match=f"{PATH}.*another process"):
                await opened(disk)
            await store.create(SEGMENT)
        async with running(disk) as store:
            assert store.segments() == [SEGMENT]

    run(main())


def test_closing_makes_durable_what_was_submitted_and_takes_no_more() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, delay=1.0) as store:
            await store.create(SEGMENT)
            waiting = asyncio.create_task(store.wait_for_data(SEGMENT, 1000, 60.0))
            last = submit(store, b"last", 1)
            await asyncio.sleep(0)
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0)
            with pytest.raises(TransientError, match="closed"):
                submit(store, b"late", 2)
            await closing
            await store.close()
            assert last.result() == 4
            with pytest.raises(TransientError, match="closed"):
                await waiting
        async with running(disk) as store:
            assert content(store) == b"last"

    run(main())


def test_a_store_that_never_ran_closes_too() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        store = await opened(disk)
        created = store.create(SEGMENT)
        await store.close()
        assert created.result()
        await (await opened(disk)).close()

    run(main())


def test_a_store_that_is_cancelled_fails_what_is_not_durable() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0, clean=False) as store:
            await store.create(SEGMENT)
            pending = submit(store, b"x", 1)
            await asyncio.sleep(0.5)
        with pytest.raises(TransientError):
            await pending

    run(main())
