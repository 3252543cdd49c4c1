"""HTTP/1.1, by bytes as they travel."""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import TransientError
from logdrive.net.http.exchange import HttpRequest, HttpResponse
from logdrive.net.http.limits import HttpLimits
from tests.logdrive.net.http.support import Served, echo, serving
from tests.support.memory.transport import MemoryStream
from tests.support.virtual_time import run


async def whole(request: HttpRequest, response: HttpResponse) -> None:
    """Answer with the method, the target, and the body."""
    body = await request.read_body(100)
    text = f"{request.method} {request.path} {request.query} {request.version} ".encode()
    await response.respond(200, [("x-a", "1")], text + body)


async def read_to_end(stream: MemoryStream) -> bytes:
    parts = []
    async with asyncio.timeout(1000):
        while data := await stream.read():
            parts.append(data)
    return b"".join(parts)


async def talk(served: Served, sent: bytes) -> bytes:
    """Return all that the server says to *sent*, of which the last request ends the connection."""
    stream = await served.connect()
    await stream.write([sent])
    return await read_to_end(stream)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_requests_one_after_the_other_whatever_the_splits(seed: int) -> None:
    requests = (
        b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n"
        b"POST http://x/abs HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
        b"PUT /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
        b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )

    async def scene() -> None:
        async with serving(whole, random=Random(seed)) as served:
            answer = await talk(served, requests)
        head = b"HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: %d\r\n%s\r\n%s"
        bodies = (b"GET /a b=c 1.1 ", b"POST /abs  1.1 abc", b"PUT /chunked  1.1 def")
        last = b"GET /last  1.1 "
        assert answer == b"".join(head % (len(body), b"", body) for body in bodies) + head % (
            len(last),
            b"Connection: close\r\n",
            last,
        )

    run(scene())


def test_the_response_begins_while_the_request_goes_on() -> None:
    async def scene() -> None:
        async with serving(echo) as served:
            stream = await served.connect()
            await stream.write(
                [b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"]
            )
            assert (await stream.read()).startswith(b"HTTP/1.1 200 OK\r\n")
            await stream.write([b"3\r\none\r\n"])
            assert await stream.read() == b"3\r\none\r\n"
            await stream.write([b"0\r\n\r\n"])
            assert await stream.read() == b"0\r\n\r\n"

    run(scene())


def test_the_body_is_asked_for_only_when_the_handler_wants_it() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        if request.path == "/no":
            await response.respond(403, [], b"")
        else:
            await whole(request, response)

    expect = b"Host: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"

    async def scene() -> None:
        async with serving(handler) as served:
            stream = await served.connect()
            await stream.write([b"POST /yes HTTP/1.1\r\n" + expect])
            assert (await stream.read()).startswith(b"HTTP/1.1 100")
            await stream.write([b"hi"])
            assert (await stream.read()).endswith(b"POST /yes  1.1 hi")
            await stream.write([b"POST /no HTTP/1.1\r\n" + expect])
            assert (await read_to_end(stream)).startswith(b"HTTP/1.1 403 Forbidden\r\n")

    run(scene())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GARBAGE\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),  # no Host
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: " + b"b" * 20_000 + b"\r\n\r\n", b"431"),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"400"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"400",
        ),
    ],
    ids=["garbage", "no-host", "long-head", "connect", "two-lengths"],
)
def test_what_is_no_request_is_refused(sent: bytes, status: bytes) -> None:
    async def scene() -> None:
        async with serving(whole) as served:
            assert (await talk(served, sent)).startswith(b"HTTP/1.1 " + status)

    run(scene())


def test_a_failing_handler_gives_500_or_breaks_what_it_began() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        if request.path == "/late":
            await response.start(200)
            await response.send(b"begun")
        raise RuntimeError("on purpose")

    async def scene() -> None:
        async with serving(handler) as served:
            early = await talk(
                served, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.0\r\nHost: x\r\n\r\n"
            )
            assert early.count(b"HTTP/1.1 500 Internal Server Error") == 2
            with pytest.raises(TransientError):
                await talk(served, b"GET /late HTTP/1.1\r\nHost: x\r\n\r\n")

    run(scene())


def test_a_short_rest_of_a_body_is_dropped_and_a_long_one_ends_the_connection() -> None:
    async def handler(_request: HttpRequest, response: HttpResponse) -> None:
        await response.respond(200, [], b"")

    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
    limits = HttpLimits(unread_body_bytes=1000)

    async def scene() -> None:
        async with serving(handler, limits) as served:
            stream = await served.connect()
            for _ in range(3):
                await stream.write([post % (1000, b"x" * 1000)])
                assert (await stream.read()).startswith(b"HTTP/1.1 200")
            await stream.write([post % (100_000, b"x" * 5000)])
            assert (await read_to_end(stream)).startswith(b"HTTP/1.1 200")

    run(scene())


def test_the_connection_reads_no_further_ahead_than_the_limit() -> None:
    go = asyncio.Event()
    size: list[int] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        await go.wait()
        size.extend([len(chunk) async for chunk in request.chunks()])
        await response.respond(200, [], b"")

    async def scene() -> None:
        async with serving(handler, HttpLimits(body_queue_bytes=100_000)) as served:
            stream = await served.connect()
            head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
            writing = asyncio.create_task(stream.write([head, b"x" * 3_000_000]))
            await asyncio.sleep(1)
            assert not writing.done()
            go.set()
            await writing
            assert (await stream.read()).startswith(b"HTTP/1.1 200")
            assert sum(size) == 3_000_000
            assert max(size) <= 500_000  # what one read brings is above the limit

    run(scene())


def test_a_peer_that_leaves_fails_the_handler() -> None:
    ends: list[str] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        try:
            if request.method == "POST":
                await request.read_body(100)
            else:
                await asyncio.sleep(1000)  # it does not notice
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    async def scene() -> None:
        async with serving(handler) as served:
            for text in (
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
                b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            ):
                stream = await served.connect()
                await stream.write([text])
                await asyncio.sleep(1)
                await stream.close()
                await asyncio.sleep(20)
            assert served.server.connections == 0
        assert ends == ["TransientError", "CancelledError"]

    run(scene())


def test_idle_and_slow_peers_are_closed_in_time() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        limits = HttpLimits(idle_seconds=100, head_seconds=10)
        async with serving(whole, limits) as served:
            for sent, seconds in (
                (b"", 10),
                (b"GET / HT", 10),
                (b"PRI * HTTP", 10),
                (b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 100),
                (b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET", 10),
            ):
                began = loop.time()
                await talk(served, sent)
                assert loop.time() - began == pytest.approx(seconds, abs=0.1)

    run(scene())
