"""Each limit on what an HTTP/2 peer may send: the connection ends, with its code."""

import asyncio
import contextlib

import pytest
import structlog
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, ResponseReceived, StreamReset

from logdrive.errors import TransientError
from logdrive.net.http.exchange import HttpRequest, HttpResponse
from logdrive.net.http.limits import HttpLimits, Rate
from tests.logdrive.net.http.support import REQUEST, RawPeer, Served, echo, frame, serving
from tests.support.virtual_time import run

_FEW = Rate(10, 1)
_LIMITS = HttpLimits(resets=_FEW, pings=_FEW, settings=_FEW, empty_frames=_FEW, other_frames=_FEW)


async def _end(peer: RawPeer, code: ErrorCodes) -> None:
    ends = [e for e in await peer.read_to_end() if isinstance(e, ConnectionTerminated)]
    assert [end.error_code for end in ends] == [code]


def _scene(flood: bytes, code: ErrorCodes, limit: str, *, limits: HttpLimits = _LIMITS) -> None:
    """Send *flood* on a connection with one request open; another connection goes on."""

    async def scene() -> None:
        async with serving(limits=limits) as served:
            other = await served.peer()
            number = await other.request()
            peer = await served.peer()
            await peer.request()
            with structlog.testing.capture_logs() as logs:
                await peer.write(flood)
                await _end(peer, code)
            assert [log.get("limit") for log in logs] == [limit or None]
            other.h2.send_data(number, b"still here", end_stream=True)
            await other.flush()
            while other.body(number) != b"still here":
                await other.read()

    run(scene())


_CALM = ErrorCodes.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    ("flood", "limit"),
    [
        (frame(6, 0, 0, b"01234567") * 11, "pings"),
        (frame(4, 0, 0) * 11, "settings"),
        (frame(0, 0, 1) * 11, "empty_frames"),
        (frame(2, 0, 1, b"\0\0\0\0\1") * 11, "other_frames"),
        (frame(99, 0, 0, b"unknown") * 11, "other_frames"),
        (frame(1, 0, 3, b"\x82" * 100) + frame(9, 0, 3, b"\x82") * 33, "continuation_frames"),
        (frame(1, 0, 3) + frame(9, 0, 3) * 12, "empty_frames"),
        (
            frame(1, 0, 3, b"\x82" * 10_000) + frame(9, 0, 3, b"\x82" * 12_000) * 2,
            "header_block_bytes",
        ),
    ],
    ids=["ping", "settings", "empty", "priority", "unknown", "continuation", "nothing", "block"],
)
def test_floods_of_frames_end_the_connection(flood: bytes, limit: str) -> None:
    _scene(flood, _CALM, limit)


@pytest.mark.parametrize(
    ("head", "limit"),
    [
        (b"\x10\x00\x01\x00\x00\x00\x00\x00\x01", "frame_bytes"),
        (b"\x00\x40\x01\x01\x00\x00\x00\x00\x03", "control_frame_bytes"),
        (b"\x10\x00\x00\x04\x00\x00\x00\x00\x00", "control_frame_bytes"),
    ],
    ids=["data", "headers", "settings"],
)
def test_too_long_frames_are_refused_from_their_head(head: bytes, limit: str) -> None:
    _scene(head, ErrorCodes.FRAME_SIZE_ERROR, limit)


def test_frames_that_break_the_protocol_end_the_connection() -> None:
    _scene(frame(0, 0, 0, b"x"), ErrorCodes.PROTOCOL_ERROR, "")
    _scene(frame(7, 0, 0, b"short"), ErrorCodes.FRAME_SIZE_ERROR, "")
    _scene(frame(8, 0, 0, b"\x7f\xff\xff\xff"), ErrorCodes.FLOW_CONTROL_ERROR, "")


def test_more_bytes_than_the_window_end_the_connection() -> None:
    limits = HttpLimits(stream_window_bytes=70_000)

    async def idle(_request: HttpRequest, response: HttpResponse) -> None:
        await asyncio.sleep(1000)

    async def scene() -> None:
        async with serving(idle, limits) as served:
            peer = await served.peer()
            await peer.request()
            await peer.write(frame(0, 0, 1, b"x" * 60_000) + frame(0, 0, 1, b"x" * 10_001))
            await _end(peer, ErrorCodes.FLOW_CONTROL_ERROR)

    run(scene())


def test_headers_above_the_limit_end_the_connection() -> None:
    async def scene() -> None:
        async with serving() as served:
            peer = await served.peer()
            await peer.request([*REQUEST, *[(f"x-{n}", "y" * 800) for n in range(20)]])
            await _end(peer, _CALM)

    run(scene())


async def _reset_rapidly(served: Served, peer: RawPeer, times: int) -> None:
    for _ in range(times):
        number = await peer.request()
        peer.h2.reset_stream(number)
        await peer.flush()


def test_rapid_resets_end_the_connection() -> None:
    async def scene() -> None:
        async with serving(limits=_LIMITS) as served:
            peer = await served.peer()
            await _reset_rapidly(served, peer, 11)
            await _end(peer, _CALM)
            # slow ones do not
            peer = await served.peer()
            for _ in range(30):
                await _reset_rapidly(served, peer, 1)
                await asyncio.sleep(1.1)
            number = await peer.request()
            peer.h2.send_data(number, b"fine", end_stream=True)
            await peer.flush()
            while peer.body(number) != b"fine":
                await peer.read()

    run(scene())


def test_handlers_of_reset_streams_count_until_they_end() -> None:
    begun: list[str] = []

    async def slow(request: HttpRequest, response: HttpResponse) -> None:
        begun.append(request.path)
        await asyncio.sleep(3)
        await response.respond(200, [], b"")

    async def scene() -> None:
        async with serving(slow, HttpLimits(concurrent_streams=5)) as served:
            peer = await served.peer()
            await _reset_rapidly(served, peer, 5)
            number = await peer.request()
            (reset,) = await peer.wait(StreamReset)
            assert (reset.stream_id, reset.error_code) == (number, ErrorCodes.REFUSED_STREAM)  # type: ignore[attr-defined]
            assert len(begun) == 5
            await asyncio.sleep(10)
            await peer.request(end=True)
            await peer.wait(ResponseReceived)
            assert len(begun) == 6

    run(scene())


def test_a_peer_that_reads_no_answers_is_disconnected() -> None:
    limits = HttpLimits(control_queue_bytes=10_000, pings=Rate(10**6, 1))

    async def scene() -> None:
        async with serving(limits=limits) as served:
            served.network.link("client", "server").capacity = 4000
            stream = await served.connect()
            peer = RawPeer(stream)
            await peer.begin()
            with structlog.testing.capture_logs() as logs:
                with pytest.raises(TransientError):
                    await peer.write(frame(6, 0, 0, b"01234567") * 2000)
                await asyncio.sleep(100)
            assert [log.get("limit") for log in logs] == ["control_queue_bytes"]
            assert served.server.connections == 0

    run(scene())


def test_a_peer_that_never_reads_a_response_is_disconnected_in_time() -> None:
    async def big(_request: HttpRequest, response: HttpResponse) -> None:
        await response.start(200)
        await response.send(b"x" * 60_000)

    async def scene() -> None:
        for http2 in (True, False):
            async with serving(big, HttpLimits(write_stall_seconds=20)) as served:
                served.network.link("client", "server").capacity = 4000
                if http2:
                    await (await served.peer()).request(end=True)
                else:
                    stream = await served.connect()
                    await stream.write([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
                await asyncio.sleep(19)
                assert served.server.connections == 1
                await asyncio.sleep(10)
                assert served.server.connections == 0

    run(scene())


def test_tiny_frames_are_kept_in_little_memory_and_in_turns() -> None:
    turns: list[int] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        await asyncio.sleep(1)
        turns.extend([len(chunk) async for chunk in request.chunks()])
        await response.respond(200, [], b"")

    async def scene() -> None:
        async with serving(handler) as served:
            peer = await served.peer()
            await peer.request()
            loop = asyncio.get_running_loop()
            rounds = 0

            def count() -> None:
                nonlocal rounds
                rounds += 1
                if rounds < 200:
                    loop.call_soon(count)

            loop.call_soon(count)
            await peer.write(frame(0, 0, 1, b"x") * 10_000 + frame(0, 1, 1))
            await asyncio.sleep(0.5)
            assert rounds >= 10_000 // 256  # other tasks ran in between
            await asyncio.sleep(1)
            assert turns == [10_000]

    run(scene())


def test_a_connection_without_streams_is_closed_in_time() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        async with serving(echo, HttpLimits(idle_seconds=50)) as served:
            peer = await served.peer()
            number = await peer.request()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(200):  # an open stream keeps it
                    while True:
                        await peer.read()
            peer.h2.end_stream(number)
            await peer.flush()
            began = loop.time()
            await _end(peer, ErrorCodes.NO_ERROR)
            assert loop.time() - began == pytest.approx(50, abs=0.1)

    run(scene())
