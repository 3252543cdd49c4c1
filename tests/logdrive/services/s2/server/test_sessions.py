"""Append and read sessions of S2's protocol, and what becomes of them when the store stops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from logdrive.net.http.http2_client import ClientStream
from logdrive.net.http.limits import CLIENT_LIMITS
from logdrive.services.s2.server import service
from logdrive.services.s2.server.budget import ByteBudget
from logdrive.services.s2.server.handlers import call
from logdrive.services.s2.server.log.hot import MOST_MEMORY
from logdrive.wire.s2 import frames, protobuf
from logdrive.wire.s2.compression import Compression, compress, decompress
from logdrive.wire.s2.errors import S2Error, SeqNumMismatchError
from logdrive.wire.s2.frames import S2Frame, S2FrameReader, encode_frame
from logdrive.wire.s2.info import rfc3339
from logdrive.wire.s2.limits import MESSAGE_BYTES
from logdrive.wire.s2.records import AppendInput, ReadBatch, Record
from tests.logdrive.services.s2.server.served import BASIN, JSON, Face, face, with_face
from tests.support import virtual_time

RECORDS = "/v1/streams/a/records"
HEADERS = (("s2-basin", BASIN), ("content-type", "s2s/proto"))


class Session:
    """The client's end of a session."""

    def __init__(self, stream: ClientStream) -> None:
        self.stream = stream
        self._chunks = stream.chunks()
        self._reader = S2FrameReader(terminals=True)

    async def append(
        self, *bodies: bytes, compression: Compression = Compression.NONE, match: int | None = None
    ) -> None:
        sent = AppendInput(tuple(map(Record, bodies)), match)
        await self.stream.send(
            encode_frame(protobuf.encode_append_input(sent), compression=compression)
        )

    async def frame(self) -> S2Frame | None:
        """Return the next frame; None at the end."""
        while (frame := self._reader.next_frame()) is None:
            data = await anext(self._chunks, None)
            if data is None:
                self._reader.finish()
                return None
            self._reader.receive(data)
        return frame

    async def end_of_append(self) -> int:
        """Return where the next append's records end, by its acknowledgement."""
        frame = await self.frame()
        assert frame is not None
        assert frame.error is None, frame.error
        return protobuf.decode_append_ack(frame.message).end.seq_num

    async def batch(self) -> ReadBatch:
        frame = await self.frame()
        assert frame is not None
        assert frame.error is None, frame.error
        return protobuf.decode_read_batch(frame.message)

    async def error(self) -> S2Error:
        frame = await self.frame()
        assert frame is not None
        assert frame.error is not None
        assert await self.frame() is None
        return frame.error


@contextlib.asynccontextmanager
async def session(
    made: Face, method: str, query: str = "", *headers: tuple[str, str]
) -> AsyncIterator[Session]:
    async with await made.client.open_stream(
        method, RECORDS + query, (*HEADERS, *headers), end=method == "GET"
    ) as stream:
        head = await stream.response()
        assert head.status == 200, await stream.read_body(1000)
        assert head.headers["content-type"] == "s2s/proto"
        yield Session(stream)


@with_face
async def test_appends_of_a_session_are_acknowledged_in_their_order(made: Face) -> None:
    await made.make("a")
    async with session(made, "POST", "", ("accept-encoding", "zstd")) as client:
        for number in range(100):
            how = (Compression.NONE, Compression.ZSTD, Compression.GZIP)[number % 3]
            await client.append(b"x" * 2000, b"%d" % number, compression=how)
        await client.stream.end_sending()
        assert [await client.end_of_append() for _ in range(100)] == list(range(2, 202, 2))
        assert await client.frame() is None


@with_face
async def test_nothing_is_done_of_what_follows_a_refused_append(made: Face) -> None:
    await made.make("a")
    async with session(made, "POST") as client:
        await client.append(b"1", match=0)
        await client.append(b"2", match=7)
        await client.append(b"3")
        assert await client.end_of_append() == 1
        error = await client.error()
        assert isinstance(error, SeqNumMismatchError)
        assert error.seq_num == 1
    got = await made.ask("GET", f"{RECORDS}/tail")
    assert got.json["tail"]["seq_num"] == 1
    metrics = (await made.ask("GET", "/metrics")).body
    assert b"\nlogdrive_s2_held_bytes 0\n" in metrics


@with_face
async def test_what_is_no_frame_or_no_append_ends_the_session_behind_its_acks(made: Face) -> None:
    await made.make("a")
    empty = protobuf.encode_append_input(AppendInput(()))
    for sent, code in (
        (b"\0\0\0", "bad_frame"),
        (encode_frame(b"\xff"), "bad_frame"),
        (encode_frame(empty), "invalid"),
        (b"\0\0\x09\0abc", "bad_frame"),  # cut off by the end of the stream
    ):
        async with session(made, "POST") as client:
            await client.append(b"x")
            await client.stream.send(sent)
            await client.stream.end_sending()
            await client.end_of_append()
            assert (await client.error()).code == code


@with_face
async def test_errors_before_a_session_are_plain_answers(made: Face) -> None:
    await made.make()
    got = await made.ask("POST", RECORDS, b"", HEADERS[1])
    assert got.code == (404, "stream_not_found")
    await made.ask("POST", "/v1/streams", {"stream": "a"})
    got = await made.ask("GET", f"{RECORDS}?seq_num=1", None, HEADERS[1])
    assert got.status == 416


@with_face
async def test_a_reader_gets_what_is_there_a_heartbeat_and_what_comes(made: Face) -> None:
    await made.make("a")
    await made.append("a", "one", "two")
    async with session(made, "GET", "?seq_num=1") as client:
        batch = await client.batch()
        assert [record.body for record in batch.records] == [b"two"]
        for _ in range(3):  # beats come on their own
            beat = await client.batch()
            assert beat.records == ()
            assert beat.tail is not None
        await made.append("a", "three")
        batch = await client.batch()
        assert [(record.seq_num, record.body) for record in batch.records] == [(2, b"three")]
        assert batch.tail is not None


@with_face
async def test_a_bounded_reading_ends_without_a_terminal_frame(made: Face) -> None:
    await made.make("a")
    await made.append("a", *"abc")
    async with session(made, "GET", "?seq_num=0&count=2") as client:
        assert len((await client.batch()).records) == 2
        assert await client.frame() is None


@with_face
async def test_events_have_ids_that_a_reader_goes_on_from(made: Face) -> None:
    await made.make("a")
    await made.append("a", "one", "two")
    events = ("accept", "text/event-stream")
    got = await made.ask("GET", f"{RECORDS}?seq_num=0&count=1", None, events)
    assert got.headers["content-type"] == "text/event-stream"
    blocks = got.body.decode().split("\n\n")
    assert blocks[0].startswith("event: batch\nid: 0,1,11\ndata: {")
    assert blocks[1:] == ["data: [DONE]", ""]
    got = await made.ask(
        "GET", f"{RECORDS}?seq_num=0&count=2", None, events, ("last-event-id", "0,1,11")
    )
    assert got.body.startswith(b"event: batch\nid: 1,2,22\n")
    got = await made.ask("GET", f"{RECORDS}?tail_offset=0&wait=1", None, events)
    assert got.body.startswith(b'event: ping\ndata: {"timestamp":')


@with_face
async def test_a_session_that_was_silent_for_long_goes_on(made: Face) -> None:
    await made.make("a")
    async with session(made, "POST") as writer, session(made, "GET") as reader:
        await writer.append(b"1")
        assert await writer.end_of_append() == 1
        while not (await reader.batch()).records:
            pass
        for _ in range(40):  # ten minutes of heartbeats
            assert (await reader.batch()).tail is not None
        await writer.append(b"2")
        assert await writer.end_of_append() == 2
        while not (await reader.batch()).records:
            pass
    async with session(made, "POST") as writer:
        await made.clock.sleep(600)
        await writer.append(b"3")
        assert await writer.end_of_append() == 3


@with_face
async def test_sessions_on_a_stream_that_is_deleted_end_with_unavailable(made: Face) -> None:
    await made.make("a")
    async with session(made, "POST") as writer, session(made, "GET") as reader:
        await writer.append(b"x")
        await writer.end_of_append()
        got = await made.ask("DELETE", "/v1/streams/a")
        assert got.status == 202
        await asyncio.sleep(1)
        await writer.append(b"y")
        assert (await writer.error()).code == "unavailable"
        while (frame := await reader.frame()) is not None and frame.error is None:
            pass
        assert frame is not None
        assert frame.error is not None
        assert frame.error.code == "unavailable"
    assert (await made.ask("GET", RECORDS)).code == (404, "stream_not_found")


@with_face
async def test_sessions_are_asked_to_move_and_may_finish_when_the_store_stops(made: Face) -> None:
    await made.make("a")
    async with session(made, "POST") as writer:
        async with session(made, "GET", "?seq_num=0") as reader:
            assert (await reader.batch()).records == ()
            await writer.append(b"1")
            assert await writer.end_of_append() == 1
            assert len((await reader.batch()).records) == 1

            stopping = asyncio.ensure_future(made.stop())
            beat = await reader.frame()
            assert beat is not None
            assert beat.reconnect_advised
        for number in (2, 3):  # what is under way is done
            await writer.append(b"%d" % number)
            ack = await writer.frame()
            assert ack is not None
            assert ack.reconnect_advised
            assert protobuf.decode_append_ack(ack.message).end.seq_num == number
        got = await made.ask("POST", RECORDS, b"", HEADERS[1])
        assert got.code == (503, "server_draining")
        assert not stopping.done()
        await writer.stream.end_sending()
        assert await writer.frame() is None
    began = made.clock.monotonic()
    await stopping
    assert made.clock.monotonic() - began < 5


@with_face
async def test_a_session_that_does_not_move_holds_the_stop_for_a_limited_time(made: Face) -> None:
    await made.make("a")
    async with session(made, "POST"):
        began = made.clock.monotonic()
        await made.stop()
        assert 10 <= made.clock.monotonic() - began < 20


@with_face
async def test_a_reader_of_events_is_let_go_when_the_store_stops(made: Face) -> None:
    await made.make("a")
    await made.append("a", "one")
    events = (("s2-basin", BASIN), ("accept", "text/event-stream"))
    async with await made.client.open_stream(
        "GET", f"{RECORDS}?seq_num=0", events, end=True
    ) as stream:
        assert (await stream.response()).status == 200
        began = made.clock.monotonic()
        await asyncio.gather(made.stop(), asyncio.sleep(0))
        text = await stream.read_body(10_000)
        assert text.startswith(b"event: batch\nid: 0,1,11\n")
        assert b"[DONE]" not in text
        assert made.clock.monotonic() - began < 5


async def _held(made: Face) -> bytes:
    """Return the line with the bytes of appends that are held."""
    lines = (await made.ask("GET", "/metrics")).body.splitlines()
    return next(line for line in lines if line.startswith(b"logdrive_s2_held_bytes"))


@with_face
async def test_a_client_that_reads_no_acknowledgements_holds_no_memory(made: Face) -> None:
    await made.make("a")
    limits = replace(CLIENT_LIMITS, stream_window_bytes=0)
    # acknowledgements can't be sent to it
    async with made.connect(limits=limits) as deaf:
        stream = await deaf.open_stream("POST", RECORDS, HEADERS)
        async with stream:
            client = Session(stream)
            for _ in range(100):
                await client.append(b"x" * 1000)
            while (await made.ask("GET", f"{RECORDS}/tail")).json["tail"]["seq_num"] < 100:
                await made.clock.sleep(1)
            assert await _held(made) == b"logdrive_s2_held_bytes 0"


def test_no_message_is_decompressed_before_there_is_memory_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[int] = []
    budgets: list[ByteBudget] = []

    def noting(data: bytes, compression: Compression, limit: int) -> bytes:
        held.append(budgets[-1].held)
        return decompress(data, compression, limit)

    def budget(total: int) -> ByteBudget:
        budgets.append(ByteBudget(total))
        return budgets[-1]

    monkeypatch.setattr(call, "decompress", noting)
    monkeypatch.setattr(frames, "decompress", noting)
    monkeypatch.setattr(service, "ByteBudget", budget)
    # 250 bytes that become 180,000 headers
    headers = ",".join(['["a",""]'] * 180_000)
    body = compress(f'{{"records":[{{"headers":[{headers}]}}]}}'.encode(), Compression.ZSTD)

    async def main() -> None:
        async with face() as made:
            await made.make("a")
            held.clear()
            encoding = ("content-encoding", "zstd")
            assert (await made.ask("POST", RECORDS, body, JSON, encoding)).status == 200
            async with session(made, "POST") as client:
                await client.append(b"x" * 100_000, compression=Compression.ZSTD)
                await client.end_of_append()
            # the third one is the client's
            assert min(held[:2]) >= MOST_MEMORY * MESSAGE_BYTES
            assert budgets[-1].held == 0

    virtual_time.run(main())


@with_face
async def test_sessions_whose_stream_was_deleted_hold_no_memory(made: Face) -> None:
    await made.make("a")
    async with session(made, "POST") as client:
        await made.ask("DELETE", "/v1/streams/a")
        await made.clock.sleep(1)
        await client.append(b"x" * 1000)
        assert (await client.error()).code == "unavailable"
    assert await _held(made) == b"logdrive_s2_held_bytes 0"


@pytest.mark.parametrize("ending", ["expires", "is revoked"])
def test_a_session_ends_once_its_token(ending: str) -> None:
    async def main() -> None:
        async with face() as made:
            await made.make("a")
            at = rfc3339(made.clock.now_ms() + 100_000)
            scope = {"basins": {"prefix": ""}, "streams": {"prefix": ""}, "ops": ["append", "read"]}
            body = {"id": "t", "scope": scope, "expires_at": at}
            got = await made.ask("POST", "/v1/access-tokens", body, basin=None)
            holder = ("authorization", f"Bearer {got.json['access_token']}")
            async with (
                session(made, "POST", "", holder) as writer,
                session(made, "GET", "", holder) as reader,
            ):
                await writer.append(b"1")
                assert await writer.end_of_append() == 1
                if ending == "expires":
                    await made.clock.sleep(101)
                else:
                    await made.ask("DELETE", "/v1/access-tokens/t", basin=None)
                await writer.append(b"2")
                assert (await writer.error()).code == "authn"
                while (frame := await reader.frame()) is not None and frame.error is None:
                    assert b"2" not in frame.message
                assert frame is not None
                assert frame.error is not None
                assert frame.error.code == "authn"

    virtual_time.run(main())


@with_face
async def test_a_prefix_is_put_before_the_stream_of_metrics(made: Face) -> None:
    await made.make("logs-a")
    scope = {
        "basins": {"prefix": ""},
        "streams": {"prefix": "logs-"},
        "ops": ["stream-metrics"],
    }
    body = {"id": "t", "scope": scope, "auto_prefix_streams": True}
    got = await made.ask("POST", "/v1/access-tokens", body, basin=None)
    holder = ("authorization", f"Bearer {got.json['access_token']}")
    path = f"/v1/metrics/{BASIN}/a?set=storage"
    assert (await made.ask("GET", path, None, holder)).status == 200
