"""Scopes and streams: their answers, what happens to their segments, and what a start finds."""

import asyncio
import errno

import msgspec
import pytest

from logdrive.errors import StorageError, TransientError
from logdrive.store.errors import StoreDamagedError
from logdrive.store.limits import StoreLimits
from logdrive.store.retention import Retention
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.errors import (
    BadNameError,
    NoSuchScopeError,
    NoSuchStreamError,
    NoSuchStreamSegmentError,
    PreconditionError,
    ScopeExistsError,
    ScopeNotEmptyError,
    StreamExistsError,
    StreamNotSealedError,
    StreamSealedError,
)
from logdrive.store.streams.journal import SEGMENT
from logdrive.store.streams.state import StreamConfig, StreamPut
from logdrive.store.streams.streams import MAX_TAGS
from logdrive.wire.pravega.names import segment_id, segment_name
from tests.logdrive.store.harness import running
from tests.logdrive.store.streams.harness import SCOPE, STREAM, WRITER, Rig, rig
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

OLD = [segment_id(0, 0), segment_id(1, 0)]
CONFIG = StreamConfig(min_segments=2, retention_type=2, retention_param=1 << 30, tags=("a", "b"))


def name(number: int, epoch: int = 0) -> str:
    return segment_name(SCOPE, STREAM, segment_id(number, epoch))


def test_what_was_made_is_there_after_a_start_and_after_a_kill() -> None:
    async def main() -> None:
        for clean in (True, False):
            disk = MemoryDisk()
            async with rig(disk, clean=clean) as there:
                await there.streams.create_scope(SCOPE)
                await there.streams.create_scope("empty")
                await there.streams.create(SCOPE, STREAM, CONFIG)
                made = await there.streams.stream(SCOPE, STREAM)
                assert [(s.id, s.low, s.high) for s in layout.current_segments(made)] == [
                    (OLD[0], 0.0, 0.5),
                    (OLD[1], 0.5, 1.0),
                ]
                assert there.store.info(name(0)) is not None
            async with rig(disk if clean else disk.killed()) as there:
                assert await there.streams.scopes() == ["empty", SCOPE]
                assert await there.streams.streams(SCOPE) == [STREAM]
                assert await there.streams.stream(SCOPE, STREAM) == made

    run(main())


def test_what_is_not_so_is_refused_and_changes_nothing() -> None:
    async def main() -> None:
        async with rig() as there:
            streams = there.streams
            await there.made()
            length = there.store.info(SEGMENT)
            for scope in ("", "a/b", "a b", "_system", "x" * 256, "ü"):
                with pytest.raises(BadNameError):
                    await streams.create_scope(scope)
            with pytest.raises(BadNameError):
                await streams.create(SCOPE, "a/b", CONFIG)
            with pytest.raises(ScopeExistsError):
                await streams.create_scope(SCOPE)
            with pytest.raises(StreamExistsError):
                await streams.create(SCOPE, STREAM, CONFIG)
            with pytest.raises(NoSuchScopeError):
                await streams.create("none", STREAM, CONFIG)
            with pytest.raises(PreconditionError):
                await streams.create(SCOPE, "other", StreamConfig(min_segments=0))
            with pytest.raises(PreconditionError):
                await streams.create(SCOPE, "other", StreamConfig(tags=("x" * MAX_TAGS,)))
            with pytest.raises(ScopeNotEmptyError):
                await streams.delete_scope(SCOPE)
            with pytest.raises(NoSuchScopeError):
                await streams.delete_scope("none")
            with pytest.raises(NoSuchStreamError):
                await streams.stream(SCOPE, "none")
            with pytest.raises(StreamNotSealedError):
                await streams.delete(SCOPE, STREAM)
            with pytest.raises(NoSuchStreamSegmentError):
                layout.successors(await streams.stream(SCOPE, STREAM), 77)
            assert there.store.info(SEGMENT) == length

    run(main())


def test_scaling_seals_what_it_replaces_and_each_knows_whom_it_follows() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            await there.write(name(0), b"old")
            epoch, now = await there.streams.scale(
                SCOPE, STREAM, OLD[:1], [(0.0, 0.25), (0.25, 0.5)]
            )
            new = [segment_id(2, 1), segment_id(3, 1)]
            assert (epoch, sorted(s.id for s in now)) == (1, sorted([OLD[1], *new]))
            sealed = {
                n: info.sealed
                for n in (name(0), name(1), name(2, 1))
                if (info := there.store.info(n)) is not None
            }
            assert sealed == {name(0): True, name(1): False, name(2, 1): False}
            stream = await there.streams.stream(SCOPE, STREAM)
            assert [(s.id, before) for s, before in layout.successors(stream, OLD[0])] == [
                (new[0], OLD[:1]),
                (new[1], OLD[:1]),
            ]
            assert layout.successors(stream, OLD[1]) == []
            await there.streams.scale(SCOPE, STREAM, [OLD[1], new[1]], [(0.25, 1.0)])
            stream = await there.streams.stream(SCOPE, STREAM)
            assert [(s.id, sorted(p)) for s, p in layout.successors(stream, new[1])] == [
                (segment_id(4, 2), sorted([OLD[1], new[1]]))
            ]
            assert layout.head_cut(stream) == {OLD[0]: 0, OLD[1]: 0}

    run(main())


@pytest.mark.parametrize(
    ("sealed", "ranges"),
    [
        (OLD, [(0.0, 0.5)]),
        (OLD, [(0.0, 0.6), (0.5, 1.0)]),
        (OLD, [(0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]),
        (OLD[:1], [(0.0, 1.0)]),
        (OLD[:1], []),
        ([], [(0.0, 1.0)]),
        ([99], [(0.0, 1.0)]),
    ],
)
def test_a_scaling_that_leaves_a_gap_or_an_overlap_is_refused(
    sealed: list[int], ranges: list[tuple[float, float]]
) -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            with pytest.raises(PreconditionError):
                await there.streams.scale(SCOPE, STREAM, sealed, ranges)

    run(main())


def test_sealed_stream_no_current_segments_and_can_be_deleted_its_numbers_never_come_again() -> (
    None
):
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            await there.made()
            await there.streams.seal(SCOPE, STREAM)
            await there.streams.seal(SCOPE, STREAM)
            stream = await there.streams.stream(SCOPE, STREAM)
            assert layout.current_segments(stream) == []
            assert layout.successors(stream, OLD[0]) == []
            with pytest.raises(StreamSealedError):
                await there.streams.configure(SCOPE, STREAM, CONFIG)
            await there.streams.delete(SCOPE, STREAM)
            assert await there.streams.streams(SCOPE) == []
            assert there.store.segments("logs/") == []
            await there.streams.delete_scope(SCOPE)
        async with rig(disk) as there:
            await there.made()
            assert there.store.segments("logs/") == [name(2), name(3)]

    run(main())


def test_a_cut_deletes_what_lies_before_it_and_truncates_the_rest() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            await there.made()
            for n in (0, 1):
                await there.write(name(n), b"0123456789")
            await there.streams.truncate(SCOPE, STREAM, {OLD[0]: 4, OLD[1]: 10})
            assert there.content(name(0)) == b"456789"
            for cut in ({OLD[0]: 3, OLD[1]: 10}, {OLD[0]: 5}, {OLD[0]: 5, OLD[1]: 11}):
                with pytest.raises(PreconditionError):
                    await there.streams.truncate(SCOPE, STREAM, cut)
            await there.streams.scale(SCOPE, STREAM, OLD, [(0.0, 1.0)])
            await there.streams.truncate(SCOPE, STREAM, {segment_id(2, 1): 0})
            assert there.store.segments("logs/") == [name(2, 1)]
            begins = {segment_id(2, 1): 0}
        async with rig(disk) as there:
            stream = await there.streams.stream(SCOPE, STREAM)
            assert layout.head_cut(stream) == layout.cut_at_time(stream, 0) == begins
            with pytest.raises(NoSuchStreamSegmentError):
                await there.streams.truncate(SCOPE, STREAM, {OLD[0]: 10, OLD[1]: 10})

    run(main())


def test_a_cut_into_what_the_damaged_index_tells_of_stops_no_other_stream_and_no_start() -> None:
    async def main() -> None:
        disk, limits = MemoryDisk(), StoreLimits(log_file=4000, page=52)
        async with running(disk, limits) as store:
            there = Rig.on(store)
            await there.made(1)
            for _ in range(50):
                await there.write(name(0), bytes(500))
        for path in disk.paths():
            if "/extents-" in path:
                disk.flip_bit(path, disk.stat(path).size - 5)  # the journal's rows stand before
        for again in ("one", "other"):
            async with running(disk, limits) as store:
                there = Rig.on(store)
                await there.streams.truncate(SCOPE, STREAM, {OLD[0]: 20_100})
                await there.streams.create(SCOPE, again, CONFIG)
                assert await there.streams.cut_at(SCOPE, STREAM) == {OLD[0]: 20_100}
                with pytest.raises(StoreDamagedError):
                    store.truncate(name(0), 20_100)

    run(main())


def test_segments_without_keys_come_and_go_and_leave_keys_and_cuts_as_they_were() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk, clean=False) as there:
            await there.made()
            before = await there.streams.stream(SCOPE, STREAM)
            assert await there.streams.add_segments(SCOPE, STREAM, 2) == [2, 3]
            await there.write(name(2), b"two")
            stream = await there.streams.stream(SCOPE, STREAM)
            assert layout.current_segments(stream) == layout.current_segments(before)
            assert [s.id for s in layout.open_segments(stream)] == [0, 1, 2, 3]
            # who reads all of it from the beginning reads them, too
            head = layout.head_cut(stream)
            assert head == {0: 0, 1: 0, 2: 0, 3: 0}
            layout.check_cut(stream, head)
            layout.check_cut(stream, layout.head_cut(before))

            # scaling goes on beside them
            await there.streams.scale(SCOPE, STREAM, [0], [(0.0, 0.5)])
            scaled = await there.streams.stream(SCOPE, STREAM)
            assert [s.id for s in layout.open_segments(scaled)] == [1, 2, 3, segment_id(4, 1)]
            end = {s.id: 0 for s in layout.segments_in_epoch(scaled, 1)}
            between = layout.segments_between(scaled, layout.head_cut(scaled), end)
            assert {2, 3} < {segment.id for segment in between}
            await there.streams.truncate(SCOPE, STREAM, end)
            assert there.content(name(2)) == b"two"
        async with rig(disk.killed()) as there:
            with pytest.raises(PreconditionError):
                await there.streams.remove_segments(SCOPE, STREAM, [1])
            await there.streams.remove_segments(SCOPE, STREAM, [3])
            assert there.store.info(name(3)) is None
            with pytest.raises(NoSuchStreamSegmentError):
                await there.streams.remove_segments(SCOPE, STREAM, [3])
            assert there.content(name(2)) == b"two"
            # a number never comes again
            assert await there.streams.add_segments(SCOPE, STREAM, 1) == [5]
            await there.streams.seal(SCOPE, STREAM)
            info = there.store.info(name(5))
            assert info is not None
            assert info.sealed
            with pytest.raises(StreamSealedError):
                await there.streams.add_segments(SCOPE, STREAM, 1)

    run(main())


def test_streams_that_sinks_made_are_taken_in_when_asked_for_and_at_a_start() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            for n in (2, 1, 0):
                await there.store.create(name(n))
            await there.store.create("logs/rg_kvtable/0.#epoch.0")  # a table of clients
            await there.store.create("logs/half/1.#epoch.0")
            stream = await there.streams.stream(SCOPE, STREAM)
            assert [(s.low, s.high) for s in layout.current_segments(stream)] == [
                (0.0, 1 / 3),
                (1 / 3, 2 / 3),
                (2 / 3, 1.0),
            ]
            with pytest.raises(NoSuchStreamError):
                await there.streams.stream(SCOPE, "half")
            await there.store.create("more/app/0.#epoch.0")
        async with rig(disk) as there:
            assert await there.streams.scopes() == [SCOPE, "more"]
            assert await there.streams.streams(SCOPE) == [STREAM]
            with pytest.raises(StreamExistsError):
                await there.streams.create("more", "app", CONFIG)

    run(main())


def test_streams_are_kept_to_size_their_makers_ask_for_and_begin_where_that_leaves_them() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.streams.create_scope(SCOPE)
            await there.streams.create(
                SCOPE, STREAM, StreamConfig(min_segments=1, retention_type=2, retention_param=30)
            )
            await there.streams.create(SCOPE, "whole", StreamConfig(min_segments=1))
            for n in range(10):
                for stream in (STREAM, "whole"):
                    await there.write(
                        segment_name(SCOPE, stream, 0), b"\0\0\0\0\0\0\0\x02" + f"{n:02}".encode()
                    )
            await Retention(
                there.store, there.streams.retention_policy, there.catalog.clock
            ).apply_policies()
            assert await there.streams.cut_at(SCOPE, STREAM) == {0: 70}
            assert await there.streams.cut_at(SCOPE, "whole") == {0: 0}
            await there.streams.configure(
                SCOPE, STREAM, StreamConfig(retention_type=1, retention_param=60_000)
            )
            found = there.streams.retention_policy(f"{SCOPE}/{STREAM}")
            assert found is not None
            assert (found.max_age_ms, found.max_bytes) == (60_000, None)

    run(main())


def test_a_full_disk_refuses_and_leaves_streams_as_they_were() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            await there.made()
            before = await there.streams.stream(SCOPE, STREAM)
            disk.fail_write(errno.ENOSPC)
            with pytest.raises(TransientError):
                await there.streams.scale(SCOPE, STREAM, OLD, [(0.0, 1.0)])
            assert await there.streams.stream(SCOPE, STREAM) == before
            await there.streams.scale(SCOPE, STREAM, OLD, [(0.0, 1.0)])

    run(main())


def test_who_gives_up_waiting_leaves_nothing_by_halves() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            asking = asyncio.create_task(there.streams.scale(SCOPE, STREAM, OLD, [(0.0, 1.0)]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            stream = await there.streams.stream(SCOPE, STREAM)
            assert [s.id for s in layout.current_segments(stream)] == [segment_id(2, 1)]
            sealed = there.store.info(name(0))
            assert sealed is not None
            assert sealed.sealed

    run(main())


def test_the_journal_is_written_anew_before_it_grows_long() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk, slack=2000) as there:
            await there.made()
            for n in range(200):
                await there.streams.configure(
                    SCOPE, STREAM, StreamConfig(min_segments=2, tags=(str(n),))
                )
            info = there.store.info(SEGMENT)
            assert info is not None
            assert info.length > 20_000
            assert info.length - info.start < 4_000
        async with rig(disk, slack=2000) as there:
            assert (await there.streams.stream(SCOPE, STREAM)).config.tags == ("199",)

    run(main())


def test_what_somebody_else_wrote_into_the_journal_is_told_and_not_guessed_at() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            await there.store.append(
                SEGMENT, b"\0\0\0\0\0\0\0\1x", writer=WRITER, expected=None, number=1, events=1
            )
            again = Rig.on(there.store)
            with pytest.raises(StorageError, match="no change at offset"):
                await again.streams.scopes()

    run(main())


def test_a_stream_s_mark_is_made_when_it_is_asked_for_and_goes_with_it() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            await there.streams.create_mark(SCOPE, f"_MARK{STREAM}")
            await there.streams.create_mark(SCOPE, f"_MARK{STREAM}")
            assert await there.streams.streams(SCOPE) == [f"_MARK{STREAM}", STREAM]
            with pytest.raises(NoSuchStreamError):
                await there.streams.create_mark(SCOPE, "_MARKnone")
            await there.streams.seal(SCOPE, STREAM)
            await there.streams.delete(SCOPE, STREAM)
            assert await there.streams.streams(SCOPE) == []

    run(main())


def test_the_segments_between_two_places_are_those_that_have_what_lies_there() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.made()
            await there.streams.scale(SCOPE, STREAM, [OLD[0]], [(0.0, 0.25), (0.25, 0.5)])
            stream = await there.streams.stream(SCOPE, STREAM)
            left, right = segment_id(2, 1), segment_id(3, 1)
            first, last = {OLD[0]: 0, OLD[1]: 0}, {left: 5, right: 5, OLD[1]: 5}

            def between(begin: dict[int, int], end: dict[int, int]) -> list[int]:
                return [segment.id for segment in layout.segments_between(stream, begin, end)]

            assert between(first, last) == [*OLD, left, right]
            assert between(first, {OLD[0]: 9, OLD[1]: 9}) == OLD
            assert between(last, last) == [OLD[1], left, right]
            for begin, end in ((last, first), (last, {**last, left: 4}), (first, {OLD[0]: 1})):
                with pytest.raises(PreconditionError):
                    between(begin, end)

    run(main())


def test_a_start_does_what_a_crash_left_undone_though_not_all_of_it_may_be_pending_at_once() -> (
    None
):
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk, clean=False) as there:
            await there.made(segments=40)
            async with there.catalog.turn() as state:
                made = state.stream_state(SCOPE, STREAM)
                assert made is not None
                doomed = msgspec.structs.replace(made.stream, status="deleting")
                await there.catalog.submit_puts([StreamPut(SCOPE, STREAM, doomed)])
            assert there.store.info(name(39)) is not None

        async with running(disk.killed(), StoreLimits(pending=4096), delay=0.001) as store:
            after = Rig.on(store)
            assert await after.streams.streams(SCOPE) == []
            assert all(store.info(name(number)) is None for number in range(40))

    run(main())
