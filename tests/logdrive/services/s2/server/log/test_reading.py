"""Readings: where they begin and end, limits, waiting, heartbeats, and records of any size."""

import asyncio
from itertools import pairwise

import pytest

from logdrive.model.framing import frame_event
from logdrive.services.s2.server.log.hot import OMITTED
from logdrive.services.s2.server.log.reading import LARGEST_RECORD, Chunk
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.wire.s2.errors import RangeNotSatisfiableError, S2Error
from logdrive.wire.s2.limits import READ_BYTES
from logdrive.wire.s2.protobuf import decode_read_batch
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import AppendInput, Record, StreamPosition, trim_record
from tests.logdrive.services.s2.server.log.harness import (
    append_foreign,
    append_raw,
    bodies,
    chunks,
    records,
    stream,
)
from tests.logdrive.store.harness import SEGMENT
from tests.support.virtual_time import EPOCH_MS, run


async def numbered(log: StreamLog, count: int, step: int = 10) -> None:
    """Append records 0 to *count* - 1 with timestamps that are *step* ms apart, from *step* on."""
    for n in range(count):
        await log.submit(AppendInput((Record(b"%d" % n, timestamp=step * (n + 1)),)))


async def numbers(log: StreamLog, **query: int | bool) -> list[int]:
    return [r.seq_num for r in await records(log, ReadQuery(**query))]  # type: ignore[arg-type]


def test_readings_begin_where_the_query_says() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            await numbered(log, 5)
            assert await numbers(log, seq_num=3, count=9) == [3, 4]
            assert await numbers(log, tail_offset=2, count=9) == [3, 4]
            assert await numbers(log, tail_offset=99, count=9) == [0, 1, 2, 3, 4]
            assert await numbers(log, timestamp=0, count=9) == [0, 1, 2, 3, 4]
            assert await numbers(log, timestamp=30, count=9) == [2, 3, 4]
            assert await numbers(log, timestamp=31, count=9) == [3, 4]
            assert await numbers(log, timestamp=50, count=9) == [4]

    run(main())


@pytest.mark.parametrize(
    "query",
    [
        ReadQuery(count=1),
        ReadQuery(seq_num=5, count=1),
        ReadQuery(seq_num=6),
        ReadQuery(seq_num=6, wait=1),
        ReadQuery(timestamp=51),
        ReadQuery(tail_offset=0, bytes=9),
        ReadQuery(seq_num=9, clamp=True, count=1),
        ReadQuery(seq_num=9, clamp=True, until=60),
    ],
)
def test_readings_from_what_is_not_written_are_refused(query: ReadQuery) -> None:
    async def main() -> None:
        async with stream() as (log, _):
            await numbered(log, 5)
            with pytest.raises(RangeNotSatisfiableError) as caught:
                await log.read(query)
            assert caught.value.tail == StreamPosition(5, 50)

    run(main())


def test_limits_of_nothing_win_over_a_place_that_is_not_written() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            for query in (ReadQuery(seq_num=9, count=0), ReadQuery(bytes=0)):
                assert await chunks(log, query) == []

    run(main())


def test_a_trimmed_stream_gives_nothing_below_its_tail() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            await numbered(log, 3)
            await log.submit(AppendInput((trim_record(9),)))
            assert await numbers(log, seq_num=0, count=5) == []
            assert await numbers(log, tail_offset=2, count=5) == []
            with pytest.raises(RangeNotSatisfiableError):
                await log.read(ReadQuery(timestamp=1, count=5))

    run(main())


def test_limits_end_a_reading_before_the_record_that_would_break_them() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            await numbered(log, 5)  # each is metered as 9 bytes
            assert await numbers(log, seq_num=0, count=3) == [0, 1, 2]
            assert await numbers(log, seq_num=0, bytes=27) == [0, 1, 2]
            assert await numbers(log, seq_num=0, bytes=35) == [0, 1, 2]
            assert await numbers(log, seq_num=0, bytes=8) == []
            assert await numbers(log, seq_num=0, until=30) == [0, 1]
            assert await numbers(log, timestamp=20, until=21) == [1]
            assert await numbers(log, seq_num=0, until=10) == []

    run(main())


def test_metered_bytes_count_headers() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            record = Record(b"abc", ((b"k", b"v"), (b"", b""))[:1])
            await log.submit(AppendInput((record, record)))
            (chunk,) = await chunks(log, ReadQuery(seq_num=0, count=5))
            assert chunk.metered == 2 * (8 + 2 + 2 + 3)
            assert await numbers(log, seq_num=0, bytes=29) == [0]

    run(main())


def test_batches_have_at_most_1000_records_and_a_mebibyte() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            for _ in range(3):
                await log.submit(bodies(*[b""] * 700))
            found = await chunks(log, ReadQuery(seq_num=0, count=5000))
            assert [chunk.count for chunk in found] == [1000, 1000, 100]
            assert [chunk.tail is None for chunk in found] == [True, True, False]
        async with stream() as (log, _):
            for _ in range(4):
                await log.submit(bodies(b"x" * 400_000))
            found = await chunks(log, ReadQuery(seq_num=0, count=5000))
            assert [chunk.count for chunk in found] == [2, 2]

    run(main())


def test_a_unary_reading_gives_one_chunk() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            for _ in range(3):
                await log.submit(bodies(*[b""] * 700))
            reading = await log.read(ReadQuery(seq_num=0), unary=True)
            assert [chunk.count async for chunk in reading] == [1000]
            reading = await log.read(ReadQuery(seq_num=2099, wait=1), unary=True)
            assert [chunk.count async for chunk in reading] == [1]
            reading = await log.read(ReadQuery(wait=2), unary=True)
            before = asyncio.get_running_loop().time()
            assert [chunk async for chunk in reading] == []
            assert asyncio.get_running_loop().time() - before == pytest.approx(2)

    run(main())


def test_a_unary_reading_that_waits_returns_what_comes_first() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            reading = await log.read(ReadQuery(wait=30), unary=True)
            waiting = asyncio.ensure_future(anext(reading))
            await asyncio.sleep(20)
            await log.submit(bodies(b"a"))
            chunk = await waiting
            assert chunk.count == 1
            assert chunk.tail == StreamPosition(1, EPOCH_MS + 20_000)
            with pytest.raises(StopAsyncIteration):
                await anext(reading)

    run(main())


def test_a_follower_has_a_heartbeat_at_once_and_then_every_5_to_15_seconds() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            loop = asyncio.get_running_loop()
            reading = await log.read(ReadQuery())
            seen: list[float] = []
            for _ in range(6):
                chunk = await anext(reading)
                assert chunk.is_heartbeat
                assert decode_read_batch(chunk.batch).tail == StreamPosition(0, 0)
                assert chunk.batch == b"\x12\x00"
                seen.append(loop.time())
            assert seen[0] == 0
            gaps = [after - before for before, after in pairwise(seen)]
            assert all(5 <= gap <= 15 for gap in gaps)
            assert len(set(gaps)) > 1
            reading.close()
            assert not log.readings

    run(main())


def test_a_follower_catches_up_and_then_sees_what_anybody_appends() -> None:
    async def main() -> None:
        async with stream(delay=0.01) as (log, store):
            await numbered(log, 2)
            reading = await log.read(ReadQuery(seq_num=0))
            first = await anext(reading)
            assert (first.count, first.tail) == (2, StreamPosition(2, 20))
            assert (await anext(reading)).is_heartbeat
            for n in range(5):
                waiting = asyncio.ensure_future(anext(reading))
                await asyncio.sleep(0.1)
                if n % 2:
                    await append_foreign(store, b"foreign")
                else:
                    await log.submit(bodies(b"own"))
                chunk = await waiting
                assert (chunk.first, chunk.count) == (2 + n, 1)
                assert chunk.tail is not None
                assert chunk.tail.seq_num == 3 + n
            reading.close()

    run(main())


def test_the_wait_is_absolute_and_only_records_begin_it_anew() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            loop = asyncio.get_running_loop()

            async def read_all() -> list[tuple[Chunk, float]]:
                reading = await log.read(ReadQuery(wait=40, count=99))
                return [(chunk, loop.time()) async for chunk in reading]

            reading = asyncio.ensure_future(read_all())
            await asyncio.sleep(35)
            await log.submit(bodies(b"a"))
            seen = await reading
            assert loop.time() == pytest.approx(75)
            assert [at for chunk, at in seen if not chunk.is_heartbeat] == [pytest.approx(35)]

    run(main())


def test_a_follower_ends_at_its_limits() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            reading = await log.read(ReadQuery(count=2, wait=60))
            assert (await anext(reading)).is_heartbeat
            await log.submit(bodies(b"a", b"b", b"c"))
            assert (await anext(reading)).count == 2
            with pytest.raises(StopAsyncIteration):
                await anext(reading)

    run(main())


def test_a_reading_that_is_hurried_gives_a_heartbeat() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            reading = await log.read(ReadQuery())
            await anext(reading)
            waiting = asyncio.ensure_future(anext(reading))
            await asyncio.sleep(1)
            reading.hurry()
            assert (await waiting).is_heartbeat
            assert asyncio.get_running_loop().time() == 1

    run(main())


def test_a_reading_is_told_that_its_stream_was_deleted() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            reading = await log.read(ReadQuery())
            await anext(reading)
            waiting = asyncio.ensure_future(anext(reading))
            await asyncio.sleep(1)
            await store.delete(SEGMENT)
            with pytest.raises(S2Error) as caught:
                await waiting
            assert caught.value.code == "unavailable"
            reading.close()

    run(main())


def test_a_reader_whose_records_are_trimmed_goes_on_behind_them() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            await numbered(log, 3)
            reading = await log.read(ReadQuery(seq_num=0))
            await log.submit(AppendInput((trim_record(2),)))
            chunk = await anext(reading)
            assert (chunk.first, chunk.count) == (2, 2)
            reading.close()

    run(main())


def test_records_longer_than_a_batch_come_alone_and_those_no_client_takes_as_a_note() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            long = b"y" * (READ_BYTES + 50)
            await append_foreign(store, b"a", long, b"b")
            huge = frame_event(b"z" * (LARGEST_RECORD + 1))
            await append_raw(store, huge[:1000], 0)
            await append_raw(store, huge[1000:])
            await log.submit(bodies(b"c"))
            found = await records(log)
            assert [r.seq_num for r in found] == [0, 1, 2, 3, 4]
            assert [r.body for r in found] == [b"a", long, b"b", b"", b"c"]
            assert found[3].headers == ((OMITTED, b"%d" % (LARGEST_RECORD + 1)),)
            # a client that sets a limit is not sent more than that
            assert await numbers(log, seq_num=1, bytes=READ_BYTES) == []
            reading = await log.read(ReadQuery(seq_num=1), unary=True)
            assert [chunk.count async for chunk in reading] == [1]

    run(main())


def test_events_in_several_appends_are_records() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            data = frame_event(b"a") + frame_event(b"b" * 30) + frame_event(b"")
            for at in range(0, len(data), 7):
                await append_raw(store, data[at : at + 7], 0)
            assert [r.body for r in await records(log)] == [b"a", b"b" * 30, b""]

    run(main())
