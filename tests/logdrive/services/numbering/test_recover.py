"""Numbers survive starts and truncations by whomever; the index spares walking over the segment."""

import pytest

from logdrive.model.framing import EVENT_HEAD, frame_events
from logdrive.services.numbering.checkpoint import PREFIX, Checkpoints
from logdrive.services.numbering.positions import Position, Positions
from logdrive.services.numbering.walk import NotEventsError
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.store.engine import Store
from logdrive.wire.s2.records import AppendInput, Record, fence_record
from tests.logdrive.services.s2.server.log.harness import (
    append_foreign,
    append_raw,
    bodies,
    opened,
    records,
    stream,
)
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

EVENT = EVENT_HEAD + 4
INDEX = PREFIX + SEGMENT


async def fill(log: StreamLog, count: int) -> None:
    """Append *count* records with their number as the body, 4 bytes each."""
    for first in range(0, count, 500):
        await log.submit(bodies(*[b"%04d" % n for n in range(first, min(count, first + 500))]))


def start(store: Store) -> int:
    info = store.info(SEGMENT)
    assert info is not None
    return info.start


@pytest.mark.parametrize("cut", [0, 1, 999, 1000, 1001, 2700, 4000])
def test_numbers_stay_where_another_face_truncates_what_is_indexed(cut: int) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with stream(disk) as (log, store):
            await fill(log, 4000)
            await store.truncate(SEGMENT, cut * EVENT)
            await log.sync()
            assert log.first_retained.seq_num == cut
            assert log.tail().seq_num == 4000
        async with stream(disk) as (log, _):
            assert log.first_retained.seq_num == cut
            assert [r.body for r in await records(log)] == [b"%04d" % n for n in range(cut, 4000)]
            assert (await log.submit(bodies(b"next", match=4000))).start.seq_num == 4000

    run(main())


def test_numbers_stay_where_another_face_appends_and_truncates_while_the_stream_is_closed() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with stream(disk) as (log, _):
            await fill(log, 1500)
        async with running(disk) as store:
            await append_foreign(store, *[b"more"] * 100)
            await store.truncate(SEGMENT, 1540 * EVENT)
        async with stream(disk) as (log, store):
            assert (log.first_retained.seq_num, log.tail().seq_num) == (1540, 1600)
            assert store.info(INDEX) is not None

    run(main())


def test_numbers_jump_where_the_stores_count_is_not_one_of_records() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with stream(disk) as (log, store):
            await fill(log, 10)
            # a receiver's batch: its count is one of lines
            await append_raw(store, frame_events([b"head", b"body"]), 1000)
            await log.sync()
            assert log.tail().seq_num == 12
        async with running(disk) as store:
            await append_raw(store, frame_events([b"head", b"body"]), 1)
            await store.truncate(SEGMENT, 13 * EVENT)
        async with stream(disk) as (log, _):
            # one number for each 8 bytes that were truncated and never counted
            first = log.first_retained.seq_num
            assert first == 12 + EVENT // EVENT_HEAD
            assert [r.body for r in await records(log)] == [b"body"]
            assert (await records(log))[0].seq_num == first

    run(main())


def test_a_stream_that_was_truncated_before_it_was_ever_opened_is_numbered_by_the_store() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            await store.create(SEGMENT)
            await append_foreign(store, *[b"line"] * 30)
            await store.truncate(SEGMENT, 20 * EVENT)
        for _ in range(2):
            async with stream(disk) as (log, store):
                assert (log.first_retained.seq_num, log.tail().seq_num) == (20, 30)
                assert store.info(INDEX) is not None, "what is shown is written first"

    run(main())


def test_what_a_truncation_leaves_of_a_record_is_no_record() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            await fill(log, 10)
            await store.truncate(SEGMENT, 3 * EVENT + 5)
            await log.sync()
            assert log.first_retained.seq_num == 10
            await log.submit(bodies(b"next"))
            assert [(r.seq_num, r.body) for r in await records(log)] == [(10, b"next")]

    run(main())


def test_a_start_walks_only_over_what_the_index_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with stream(disk) as (log, _):
            await fill(log, 3000)
            await log.submit(AppendInput((fence_record("me"),)))
        async with running(disk) as store:
            read: list[int] = []
            whole = Store.read_appends

            def watched(self: Store, segment: str, offset: int, limit: int) -> object:
                read.append(offset)
                return whole(self, segment, offset, limit)

            monkeypatch.setattr(Store, "read_appends", watched)
            log = await opened(store)
            assert log.tail().seq_num == 3001
            assert log.view.token == "me"
            assert len(log.view.rows) > 2
            assert read == []
            await log.close()

    run(main())


def test_the_index_is_written_while_a_stream_grows_and_is_shortened() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with stream(disk) as (log, store):
            await fill(log, 140_000)
            assert store.info(INDEX) is not None
        async with running(disk, clean=False) as store:
            log = await opened(store)
            assert log.tail().seq_num == 140_000
            for _ in range(40):
                await log.numbered._save()
            index = store.info(INDEX)
            assert index is not None
            size = 24 * len(log.view.rows)
            assert index.length - index.start < 10 * size + 100_000

    run(main())


def test_the_index_of_a_long_stream_is_written_without_looking_at_its_old_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with stream(MemoryDisk()) as (log, _):
            await fill(log, 70_000)
            await log.numbered._save()
            await fill(log, 3000)
            looked_at: list[int] = []
            look = Positions.__getitem__

            def watched(self: Positions, at: int) -> Position:
                looked_at.append(at)
                return look(self, at)

            monkeypatch.setattr(Positions, "__getitem__", watched)
            await log.numbered._save()
            assert len(log.view.rows) > 70
            assert 0 < len(looked_at) < 10

    run(main())


def test_the_index_of_a_deleted_stream_is_not_taken_for_that_of_the_next() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            log = await opened(store)
            await fill(log, 2000)
            await log.close()
            assert Checkpoints(store, SEGMENT).load() is not None
            await store.delete(SEGMENT)
            await store.create(SEGMENT)
            assert Checkpoints(store, SEGMENT).load() is None
            log = await opened(store)
            assert log.tail().seq_num == 0
            await log.close()

    run(main())


def test_a_segment_without_events_is_no_stream() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            await append_raw(store, b"any bytes at all")
            with pytest.raises(NotEventsError):
                await opened(store)

    run(main())


def test_the_view_is_the_same_by_own_appends_and_by_walking() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        given = [Record(b"%d" % n, ((b"k", b"v"),) * (n % 3), n * 7 % 50) for n in range(300)]
        async with stream(disk) as (log, store):
            for at in range(0, 300, 20):
                await log.submit(AppendInput(tuple(given[at : at + 20])))
            before = await records(log)
            end = log.view.end
            if store.info(INDEX) is not None:
                await store.delete(INDEX)
        async with stream(disk) as (log, _):
            assert log.view.end == end
            assert await records(log) == before

    run(main())
