"""Polls: where each strategy begins, and what bounds a reply."""

import asyncio

import pytest

from logdrive.model.framing import EVENT_HEAD, frame_event
from logdrive.services.iggy.server.log import stored
from logdrive.services.iggy.server.log.foreign import OMITTED
from logdrive.services.numbering.heads import COMMAND, RECORD, encode_payload
from logdrive.services.numbering.view import View
from logdrive.services.s2.server.log.payload import encode_fields
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import PollingKind, PollingStrategy
from logdrive.wire.iggy.messages.headers import decode_headers
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.log.harness import (
    EVERYTHING,
    NEXT,
    append_foreign,
    append_raw,
    joined,
    messages,
    partition,
    payloads,
    polled,
    sent,
)
from tests.support.virtual_time import EPOCH_MS, run

REVISIONS = [Revision.R0, Revision.R1, Revision.R2C, Revision.R3]


def at(offset: int) -> PollingStrategy:
    return PollingStrategy(PollingKind.OFFSET, offset)


def since(time_us: int) -> PollingStrategy:
    return PollingStrategy(PollingKind.TIMESTAMP, time_us)


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_strategy_begins_where_it_says(revision: Revision) -> None:
    async def main() -> None:
        async with partition() as (log, _):
            for first in range(0, 100, 10):
                await log.append(sent(*[b"%d" % n for n in range(first, first + 10)]))

            async def offsets(
                strategy: PollingStrategy, count: int = 3, stored_offset: int | None = None
            ) -> list[int]:
                found = await messages(
                    log, strategy, count, stored=stored_offset, revision=revision
                )
                assert payloads(found) == [b"%d" % one.offset for one in found]
                return [one.offset for one in found]

            assert await offsets(at(0)) == [0, 1, 2]
            assert await offsets(at(47)) == [47, 48, 49]
            assert await offsets(at(99)) == [99]
            assert await offsets(at(100)) == []
            assert await offsets(at(2**64 - 1)) == []
            assert await offsets(PollingStrategy(PollingKind.FIRST)) == [0, 1, 2]
            assert await offsets(PollingStrategy(PollingKind.LAST)) == [97, 98, 99]
            assert len(await offsets(PollingStrategy(PollingKind.LAST), EVERYTHING)) == 100
            assert await offsets(NEXT) == [0, 1, 2]
            assert await offsets(NEXT, stored_offset=41) == [42, 43, 44]
            assert await offsets(NEXT, stored_offset=99) == []
            assert await offsets(NEXT, stored_offset=5000) == []
            found = await polled(log, at(47), 3, revision=revision)
            assert found.reply.current_offset == 99

    run(main())


def test_a_poll_by_time_misses_nothing_of_that_time_and_has_nothing_of_before() -> None:
    async def main() -> None:
        async with partition() as (log, _):
            for n in range(30):
                await log.append(sent(*[b"%d" % n] * 3))
                await asyncio.sleep((0, 0.001, 2)[n % 3])
            everything = await messages(log)
            assert len({one.timestamp for one in everything}) > 10
            for one in everything:
                for delta in (-1000, -1, 0, 1, 999):
                    time = one.timestamp + delta
                    expected = [m.offset for m in everything if m.timestamp >= time]
                    found = await messages(log, since(time))
                    assert [m.offset for m in found] == expected
            assert len(await messages(log, since(0))) == 90
            assert await messages(log, since(2**64 - 1)) == []

    run(main())


def test_an_event_that_began_before_a_time_is_not_of_that_time() -> None:
    async def main() -> None:
        async with partition() as (log, store):
            event = frame_event(b"in two appends")
            await append_raw(store, event[:12], 0)
            await asyncio.sleep(10)
            await append_raw(store, event[12:], 1)
            await log.append(sent(b"after"))
            found = await messages(log)
            assert payloads(found) == [b"in two appends", b"after"]
            later = await messages(log, since((EPOCH_MS + 5000) * 1000))
            assert payloads(later) == [b"after"]

    run(main())


def test_what_was_deleted_is_skipped_by_every_strategy() -> None:
    async def main() -> None:
        async with partition() as (log, _):
            await log.append(sent(*[b"%d" % n for n in range(100)]))
            await log.numbered.delete_before(60)
            for strategy in (at(0), at(59), since(0), NEXT, PollingStrategy(PollingKind.FIRST)):
                assert [one.offset for one in await messages(log, strategy, 2)] == [60, 61]
            found = await messages(log, PollingStrategy(PollingKind.LAST), EVERYTHING)
            assert [one.offset for one in found] == list(range(60, 100))

    run(main())


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_poll_of_no_messages_is_an_error_up_to_r1_and_empty_since(revision: Revision) -> None:
    async def main() -> None:
        async with partition() as (log, _):
            await log.append(sent(b"a"))
            if revision <= Revision.R1:
                with pytest.raises(IggyError) as error:
                    await polled(log, at(0), 0, revision=revision)
                assert error.value.code(revision) == 4009
            else:
                assert (await polled(log, at(0), 0, revision=revision)).reply.count == 0

    run(main())


def test_a_poll_of_an_empty_partition_is_empty() -> None:
    async def main() -> None:
        async with partition() as (log, _):
            for strategy in (at(0), since(0), NEXT, PollingStrategy(PollingKind.LAST)):
                found = await polled(log, strategy, 5)
                assert (found.reply.count, found.reply.current_offset) == (0, 0)
                assert found.last_offset is None

    run(main())


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_reply_is_bounded_in_bytes_but_has_at_least_one_message(revision: Revision) -> None:
    async def main() -> None:
        async with partition() as (log, _):
            for _ in range(10):
                await log.append(sent(*[b"x" * 1000] * 20))
            seen = 0
            while seen < 200:
                found = await log.poll(
                    revision, at(seen), EVERYTHING, partition=0, stored=None, limit=20_000
                )
                assert min(10, 200 - seen) <= found.reply.count <= 20
                assert len(joined(found)) <= 20_000
                assert found.first_offset == seen
                seen += found.reply.count
            one = await log.poll(revision, at(7), EVERYTHING, partition=0, stored=None, limit=10)
            assert one.reply.count == 1

    run(main())


def test_a_consumer_that_goes_on_where_it_was_costs_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with partition() as (log, _):
            for first in range(0, 5000, 500):
                await log.append(sent(*[b"%d" % n for n in range(first, first + 500)]))
            searched: list[int] = []
            search = View.position_of

            def watched(self: View, seq_num: int) -> object:
                searched.append(seq_num)
                return search(self, seq_num)

            monkeypatch.setattr(View, "position_of", watched)
            offset = 0
            while offset < 5000:
                found = await messages(log, at(offset), 70)
                assert [one.offset for one in found][:1] == [offset]
                offset += len(found)
            assert searched == [0]

    run(main())


def test_events_longer_than_a_piece_or_in_several_appends_are_whole_messages() -> None:
    async def main() -> None:
        async with partition() as (log, store):
            long = b"y" * 3_000_000
            await append_foreign(store, b"a", long, b"b")
            event = frame_event(b"in pieces" * 1000)
            for begin in range(0, len(event), 2000):
                await append_raw(store, event[begin : begin + 2000], int(begin == 0))
            await log.append(sent(b"end"))
            assert payloads(await messages(log)) == [
                b"a",
                long,
                b"b",
                b"in pieces" * 1000,
                b"end",
            ]

    run(main())


def test_an_event_that_no_client_could_take_is_shown_by_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        monkeypatch.setattr(stored, "LONGEST", 2_000_000)
        async with partition() as (log, store):
            await append_foreign(store, b"a", b"z" * 2_000_001, b"b")
            first, instead, last = await messages(log)
            assert (first.payload, instead.payload, last.payload) == (b"a", b"", b"b")
            ((key, value),) = decode_headers(instead.headers)
            assert (key.data, value.data) == (OMITTED.encode(), b"2000001")

    run(main())


@pytest.mark.parametrize("revision", REVISIONS)
def test_records_of_s2_are_shown_with_their_headers_where_iggy_allows_them(
    revision: Revision,
) -> None:
    def record(*headers: tuple[bytes, bytes], body: bytes = b"body", kind: int = RECORD) -> bytes:
        return encode_payload(kind, 5, 8, encode_fields(headers, body))

    shown = [record((b"name", b"value"), (b"other", b"\xff")), record()]
    as_stored = [
        record((b"", b"fence"), kind=COMMAND),
        record((b"", b"x")),
        record((b"name", b"")),
        record((b"n" * 256, b"v")),
        record((b"\xff", b"v")),
        record((b"twice", b"v"), (b"twice", b"v")),
        b"\xff any bytes",
        b"\xffS2R\x01",
    ]

    async def main() -> None:
        async with partition() as (log, store):
            await append_foreign(store, *shown, *as_stored)
            found = await messages(log, revision=revision)
            assert payloads(found)[:2] == [b"body", b"body"]
            headers = decode_headers(found[0].headers)
            assert [(key.data, value.data) for key, value in headers] == [
                (b"name", b"value"),
                (b"other", b"\xff"),
            ]
            assert payloads(found)[2:] == as_stored
            assert not any(one.headers for one in found[1:])

    run(main())


def test_a_segment_without_events_has_no_messages() -> None:
    async def main() -> None:
        async with partition() as (log, store):
            await append_raw(store, b"any bytes at all")
            with pytest.raises(IggyError) as error:
                await messages(log)
            assert error.value.reason is Reason.FEATURE_UNAVAILABLE

    run(main())


def test_figures_count_what_is_left() -> None:
    async def main() -> None:
        async with partition() as (log, _):
            figures = await log.figures()
            assert (figures.messages, figures.size, figures.current_offset) == (0, 0, 0)
            await log.append(sent(*[b"12345678"] * 10))
            await log.numbered.delete_before(4)
            figures = await log.figures()
            assert (figures.first_offset, figures.current_offset, figures.messages) == (4, 9, 6)
            assert figures.size == 6 * (EVENT_HEAD + 8)
            assert figures.segments(50) == 2
            assert figures.segments() == 1

    run(main())
