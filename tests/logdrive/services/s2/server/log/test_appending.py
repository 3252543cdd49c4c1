"""Appends: numbers, times, conditions, commands."""

import asyncio

import pytest

from logdrive.model.framing import EVENT_HEAD, frame_event
from logdrive.services.numbering.heads import COMMAND, RECORD, encode_payload
from logdrive.services.s2.server.log.appender import AppendChain
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.store.limits import StoreLimits
from logdrive.wire.s2.configs import TimestampingMode
from logdrive.wire.s2.errors import FencingTokenMismatchError, S2Error, SeqNumMismatchError
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import (
    AppendAck,
    AppendInput,
    Record,
    StreamPosition,
    fence_record,
    trim_record,
)
from tests.logdrive.services.s2.server.log.harness import (
    append_foreign,
    append_raw,
    bodies,
    records,
    stream,
)
from tests.logdrive.store.harness import SEGMENT
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import EPOCH_MS, run


def test_appends_are_numbered_from_0_and_read_back() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            assert log.tail() == StreamPosition(0, 0)
            ack = await log.submit(bodies(b"a"))
            assert ack == AppendAck(
                StreamPosition(0, EPOCH_MS),
                StreamPosition(1, EPOCH_MS),
                StreamPosition(1, EPOCH_MS),
            )
            ack = await log.submit(bodies(b"b", b""))
            assert (ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num) == (1, 3, 3)
            found = await records(log)
            assert [(r.seq_num, r.timestamp, r.headers, r.body) for r in found] == [
                (0, EPOCH_MS, (), b"a"),
                (1, EPOCH_MS, (), b"b"),
                (2, EPOCH_MS, (), b""),
            ]

    run(main())


def test_conditions_are_checked_against_what_is_submitted_and_not_durable_yet() -> None:
    async def main() -> None:
        async with stream(delay=0.1) as (log, _):
            first = log.submit(bodies(b"a", b"b", match=0))
            wrong = log.submit(bodies(b"x", match=1))
            second = log.submit(bodies(b"c", match=2))
            fence = log.submit(AppendInput((fence_record("me"),), fencing_token=""))
            fenced = log.submit(bodies(b"y", token=""))
            third = log.submit(bodies(b"d", match=4, token="me"))
            await asyncio.wait([wrong])
            assert first.done(), "a refusal waits for what it rests on"
            with pytest.raises(SeqNumMismatchError) as caught:
                await wrong
            assert caught.value.seq_num == 2
            with pytest.raises(FencingTokenMismatchError) as mismatch:
                await fenced
            assert mismatch.value.token == "me"
            acks = [await each for each in (first, second, fence, third)]
            assert [ack.start.seq_num for ack in acks] == [0, 2, 3, 4]
            # a fencing token is checked before a sequence number
            with pytest.raises(FencingTokenMismatchError):
                await log.submit(bodies(b"z", match=99, token="you"))
            assert [r.body for r in await records(log)] == [b"a", b"b", b"c", b"me", b"d"]

    run(main())


def test_appends_of_a_session_are_not_done_after_one_was_refused() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            session = AppendChain()
            done = [
                log.submit(bodies(b"a"), session=session),
                log.submit(bodies(b"b", match=7), session=session),
                log.submit(bodies(b"c"), session=session),
                log.submit(bodies(b"other")),
            ]
            results = await asyncio.gather(*done, return_exceptions=True)
            assert [type(result) for result in results] == [
                AppendAck,
                SeqNumMismatchError,
                SeqNumMismatchError,
                AppendAck,
            ]
            assert [r.body for r in await records(log)] == [b"a", b"other"]

    run(main())


def test_numbers_go_on_behind_what_others_append_whether_durable_or_pending() -> None:
    async def main() -> None:
        async with stream(delay=0.1) as (log, store):
            await append_foreign(store, b"line 1", b"line 2")
            assert (await log.submit(bodies(b"a", match=2))).start.seq_num == 2
            append_foreign(store, b"line 3")
            blind = log.submit(bodies(b"b"))
            append_foreign(store, b"line 4")
            exact = log.submit(bodies(b"c", match=6))
            assert (await blind).start.seq_num == 4
            assert (await exact).start.seq_num == 6
            append_foreign(store, b"line 5")
            with pytest.raises(SeqNumMismatchError) as caught:
                await log.submit(bodies(b"d", match=7))
            assert caught.value.seq_num == 8
            assert b" ".join(r.body for r in await records(log)) == (
                b"line 1 line 2 a line 3 b line 4 c line 5"
            )

    run(main())


def test_a_foreign_append_is_seen_at_the_next_sync() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            await append_foreign(store, b"x")
            await log.sync()
            assert log.tail() == StreamPosition(1, EPOCH_MS)

    run(main())


@pytest.mark.parametrize(
    ("mode", "uncapped", "given", "expected"),
    [
        ("client-prefer", False, 5, 5),
        ("client-prefer", False, None, EPOCH_MS),
        ("client-prefer", False, EPOCH_MS + 9, EPOCH_MS),
        ("client-prefer", True, EPOCH_MS + 9, EPOCH_MS + 9),
        ("client-require", False, 5, 5),
        ("arrival", False, 5, EPOCH_MS),
    ],
)
def test_timestamps_follow_the_mode(
    mode: str, uncapped: bool, given: int | None, expected: int
) -> None:
    async def main() -> None:
        settings = LogSettings(TimestampingMode(mode), uncapped)
        async with stream(settings=settings) as (log, _):
            await log.submit(AppendInput((Record(b"a", timestamp=given),)))
            assert [r.timestamp for r in await records(log)] == [expected]
            assert log.tail().timestamp == expected

    run(main())


def test_timestamps_never_decrease_and_are_required_of_each_record() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            ack = await log.submit(
                AppendInput(tuple(Record(b"", timestamp=at) for at in (7, 3, 9, 8)))
            )
            assert (ack.start.timestamp, ack.end.timestamp) == (7, 9)
            ack = await log.submit(AppendInput((Record(b"", timestamp=2),)))
            assert (ack.start.timestamp, ack.end.timestamp) == (9, 9)
            await append_foreign(store, b"later")
            ack = await log.submit(AppendInput((Record(b"", timestamp=2),)))
            assert ack.end.timestamp == EPOCH_MS
            assert [r.timestamp for r in await records(log)] == [7, 7, 9, 9, 9, EPOCH_MS, EPOCH_MS]
        settings = LogSettings(TimestampingMode.CLIENT_REQUIRE)
        async with stream(settings=settings) as (log, _):
            with pytest.raises(S2Error, match="requires a timestamp") as caught:
                await log.submit(AppendInput((Record(b"", timestamp=2), Record(b""))))
            assert caught.value.status == 422
            assert log.is_empty

    run(main())


def test_headers_and_bodies_that_look_like_payloads_come_back_as_they_were() -> None:
    async def main() -> None:
        given = (
            Record(b"\xffS2R\x01"),
            Record(b"\xffS2R\x01" + bytes(40)),
            Record(b"", ((b"k", b""), (b"k", b"v"))),
            Record(b"\xff"),
            Record(b"x" * 300, ((b"n" * 200, b"\x00\xff"),), 12),
        )
        async with stream() as (log, _):
            await log.submit(AppendInput(given))
            assert [(r.body, r.headers) for r in await records(log)] == [
                (r.body, r.headers) for r in given
            ]

    run(main())


def test_what_others_write_like_a_payload_of_ours_is_a_body() -> None:
    async def main() -> None:
        head = encode_payload(RECORD, 5, 8, b"")
        broken = encode_payload(RECORD, 5, 12, b"\x22\xff\xff\xff\x0f")
        command = encode_payload(COMMAND, 5, 30, b"\x1a\x09\x12\x05fence" + b"\x22\x20" + bytes(9))
        written = [head[:9], broken, command, b"\xffS2R\x02" + bytes(20)]
        async with stream() as (log, store):
            await append_foreign(store, *written)
            await log.submit(bodies(b"own"))
            assert [r.body for r in await records(log)] == [*written, b"own"]
            assert log.view.token == ""

    run(main())


def test_a_trim_deletes_records_before_a_number_and_itself_at_most() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            await log.submit(bodies(b"0", b"1", b"2"))
            ack = await log.submit(AppendInput((trim_record(2),)))
            assert (ack.start.seq_num, ack.end.seq_num) == (3, 4)
            assert log.first_retained.seq_num == 2
            assert [r.seq_num for r in await records(log)] == [2, 3]
            await asyncio.sleep(1)
            info = store.info(SEGMENT)
            assert info is not None
            assert info.start == 2 * (EVENT_HEAD + 1)
            await log.submit(AppendInput((trim_record(1),)))
            assert log.first_retained.seq_num == 2
            await log.submit(AppendInput((trim_record(999),)))
            assert log.is_empty
            await asyncio.sleep(1)
            info = store.info(SEGMENT)
            assert info is not None
            assert info.start == info.length
            assert (await log.submit(bodies(b"a", match=6))).start.seq_num == 6
            assert not log.is_empty
            assert [r.body for r in await records(log)] == [b"a"]

    run(main())


def test_a_trim_of_a_stream_that_is_opened_again_is_finished_and_numbers_stay() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with stream(disk) as (log, _):
            await log.submit(bodies(*[b"%d" % n for n in range(10)]))
            await log.submit(AppendInput((fence_record("me"), trim_record(7))))
        async with stream(disk) as (log, store):
            assert (log.tail().seq_num, log.first_retained.seq_num) == (12, 7)
            assert log.view.token == "me"
            assert [r.seq_num for r in await records(log)] == [7, 8, 9, 10, 11]
            info = store.info(SEGMENT)
            assert info is not None
            assert info.start > 0
            with pytest.raises(FencingTokenMismatchError):
                await log.submit(bodies(b"x", token="you"))

    run(main())


def test_a_failed_write_fails_what_was_submitted_and_numbers_are_the_durable_ones_again() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with stream(disk, delay=0.1) as (log, _):
            await log.submit(bodies(b"a"))
            disk.capacity = disk.used() + 10
            lost = [
                log.submit(AppendInput((fence_record("gone"),))),
                log.submit(bodies(b"b" * 2000)),
                log.submit(bodies(b"c", match=9)),
            ]
            for result in await asyncio.gather(*lost, return_exceptions=True):
                assert isinstance(result, S2Error)
                assert (result.status, result.code) == (500, "storage")
            disk.capacity = None
            ack = await log.submit(bodies(b"d", match=1, token=""))
            assert ack.start.seq_num == 1
            assert [r.body for r in await records(log)] == [b"a", b"d"]

    run(main())


def test_appends_wait_for_room_in_their_order() -> None:
    async def main() -> None:
        async with stream(limits=StoreLimits(pending=4000), delay=0.1) as (log, _):
            each = [log.submit(bodies(b"%03d" % n * 300)) for n in range(20)]
            acks = [await one for one in each]
            assert [ack.start.seq_num for ack in acks] == list(range(20))
            assert [r.body[:3] for r in await records(log)] == [b"%03d" % n for n in range(20)]

    run(main())


def test_a_part_of_a_record_at_the_end_is_neither_shown_nor_appended_to() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            await log.submit(bodies(b"a"))
            event = frame_event(b"in two parts")
            await append_raw(store, event[:11])
            with pytest.raises(S2Error) as caught:
                await log.submit(bodies(b"b"))
            assert caught.value.code == "hot_server"
            assert log.tail().seq_num == 1
            await append_raw(store, event[11:])
            assert (await log.submit(bodies(b"b"))).start.seq_num == 2
            assert [r.body for r in await records(log)] == [b"a", b"in two parts", b"b"]

    run(main())


def test_a_sealed_and_a_deleted_stream_take_nothing() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            await store.seal(SEGMENT)
            with pytest.raises(S2Error) as sealed:
                await log.submit(bodies(b"a"))
            assert sealed.value.status == 422
            await store.delete(SEGMENT)
            with pytest.raises(S2Error) as gone:
                await log.submit(bodies(b"a"))
            assert gone.value.code == "unavailable"
            with pytest.raises(S2Error):
                await log.sync()

    run(main())


def test_retention_goes_by_the_time_of_appends_and_is_never_early() -> None:
    async def main() -> None:
        async with stream() as (log, store):
            for n in range(50):
                # whatever clients say of their records' times
                record = Record(b"%02d" % n * 700, timestamp=1_000 * (n % 3))
                await log.submit(AppendInput((record,) * 700))
                await asyncio.sleep(10)
            for seconds, first in ((0, 0), (5, 1), (10, 1), (205, 21), (100, 21), (490, 49)):
                await log.numbered.cut_appended_before(EPOCH_MS + 1000 * seconds)
                assert log.first_retained.seq_num == 700 * first
                info = store.info(SEGMENT)
                assert info is not None
                assert info.start == log.first_position().offset
            await log.numbered.cut_appended_before(EPOCH_MS + 1_000_000)
            assert log.is_empty
            assert (await log.submit(bodies(b"a"))).start.seq_num == 50 * 700

    run(main())


def test_a_closed_stream_ends_its_readings() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            reading = await log.read(ReadQuery())
            assert (await anext(reading)).is_heartbeat
            waiting = asyncio.ensure_future(anext(reading))
            await asyncio.sleep(0.1)
            await log.close()
            with pytest.raises(S2Error, match="closed"):
                await waiting
            assert asyncio.get_running_loop().time() < 1
            reading.close()

    run(main())
