"""Requests and responses over HTTP/2, by our client and by a bare h2."""

import asyncio
import contextlib
from random import Random

import pytest
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import RejectedError, TransientError
from logdrive.model.units import KIB, MIB
from logdrive.net.http.errors import BodyTooLargeError, StreamResetError
from logdrive.net.http.exchange import HttpRequest, HttpResponse
from logdrive.net.http.http2_client import ClientStream
from logdrive.net.http.limits import HttpLimits
from tests.logdrive.net.http.support import PORT, REQUEST, echo, serving
from tests.support.virtual_time import run


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.binary(max_size=200), st.integers(0, 3000))
def test_a_body_comes_back_whole_whatever_the_splits(seed: int, text: bytes, times: int) -> None:
    async def scene() -> None:
        body = text * times
        async with serving(random=Random(seed)) as served, served.client() as client:
            response = await client.request("POST", "/echo", body=body)
            assert (response.status, response.body) == (200, body)

    run(scene())


def test_the_handler_sees_the_request_as_it_was_sent() -> None:
    seen: list[HttpRequest] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        seen.append(request)
        await response.respond(201, [("x-a", "1"), ("x-a", "2")], b"made")

    async def scene() -> None:
        async with serving(handler) as served, served.client() as client:
            headers = [("x-b", "é"), ("x-b", "2"), ("cookie", "a"), ("cookie", "b")]
            response = await client.request("PUT", "/a%2Fb/c%20d?x=%3F&y", headers)
            assert response.status == 201
            assert response.head.headers == {"x-a": "1, 2", "content-length": "4"}
            assert response.body == b"made"

    run(scene())
    (request,) = seen
    assert (request.method, request.path, request.query) == ("PUT", "/a%2Fb/c%20d", "x=%3F&y")
    assert request.version == "2"
    assert request.headers["x-b"].encode("latin-1") == "é, 2".encode()
    assert request.headers["cookie"] == "a; b"
    assert request.headers["host"].startswith("server")


def test_the_response_begins_while_the_request_goes_on() -> None:
    async def scene() -> None:
        async with serving() as served, served.client() as client:
            stream = await client.open_stream("POST", "/echo")
            assert (await stream.response()).status == 200
            chunks = stream.chunks()
            for text in (b"one", b"two"):
                await stream.send(text)
                assert await anext(chunks) == text
            await stream.end_sending()
            assert [chunk async for chunk in chunks] == []

    run(scene())


def test_many_streams_at_once_keep_their_bodies_apart() -> None:
    async def scene() -> None:
        async with serving(random=Random(7)) as served, served.client() as client:

            async def one(number: int) -> None:
                body = bytes([number]) * (number * 3000)
                assert (await client.request("POST", "/echo", body=body)).body == body

            await asyncio.gather(*(one(number) for number in range(40)))

    run(scene())


def test_the_window_opens_only_as_the_body_is_taken() -> None:
    go = asyncio.Event()
    taken: list[int] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        await go.wait()
        taken.extend([len(chunk) async for chunk in request.chunks()])
        await response.respond(200, [], b"")

    async def scene() -> None:
        limits = HttpLimits(stream_window_bytes=100_000)
        async with serving(handler, limits) as served, served.client() as client:
            stream = await client.open_stream("POST", "/")
            sending = asyncio.create_task(stream.send(b"x" * MIB))
            await asyncio.sleep(1)
            assert not sending.done()
            assert stream.outbound.size == MIB - 100_000
            go.set()
            await sending
            await stream.end_sending()
            assert (await stream.response()).status == 200
        assert sum(taken) == MIB

    run(scene())


def test_a_client_that_takes_nothing_holds_up_the_sender() -> None:
    sent: list[int] = []

    async def handler(_request: HttpRequest, response: HttpResponse) -> None:
        await response.start(200)
        for _ in range(100):
            await response.send(b"x" * 10_000)
            sent.append(10_000)
        await response.end()

    async def scene() -> None:
        async with serving(handler) as served:
            peer = await served.peer()
            await peer.request(end=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    while True:
                        await peer.read(acknowledge=False)
            assert sum(sent) == 60_000  # 65,535 is the default window

    run(scene())


def test_streams_share_the_connection_frame_by_frame() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        await response.respond(200, [], b"x" * int(request.query))

    async def scene() -> None:
        async with serving(handler) as served:
            peer = await served.peer()
            peer.h2.increment_flow_control_window(MIB)
            for _ in range(2):
                await peer.request([*REQUEST[:1], (":path", "/?60000"), *REQUEST[2:]], end=True)
            await peer.wait(StreamEnded, count=2)
            turns = [e.stream_id for e in peer.events if isinstance(e, DataReceived) and e.data]
            assert turns == [1, 3, 1, 3, 1, 3, 1, 3]

    run(scene())


def test_a_failing_handler_gives_500_and_ends_nothing_else() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        if request.path == "/raise":
            raise RuntimeError("on purpose")
        if request.path == "/late":
            await response.start(200)
            raise RuntimeError("on purpose")
        if request.path == "/silent":
            return
        await response.respond(200, [], b"fine")

    async def scene() -> None:
        async with serving(handler) as served, served.client() as client:
            for path in ("/raise", "/silent"):
                assert (await client.request("GET", path)).status == 500
            with pytest.raises(StreamResetError) as reset:
                await client.request("GET", "/late")
            assert reset.value.code == ErrorCodes.INTERNAL_ERROR
            assert (await client.request("GET", "/")).body == b"fine"

    run(scene())


async def send_forever(stream: ClientStream) -> None:
    while True:
        await stream.send(b"x" * MIB)
        await asyncio.sleep(0.3)


def test_a_body_above_the_limit_is_refused_before_it_is_read() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        await response.respond(200, [], await request.read_body(1000))

    async def scene() -> None:
        async with serving(handler) as served, served.client() as client:
            assert (await client.request("POST", "/", body=b"x" * 1000)).status == 200
            assert (await client.request("POST", "/", body=b"x" * 1001)).status == 413
            # without content-length; and so long that the window alone would stop it
            async with await client.open_stream("POST", "/") as stream:
                with pytest.raises(StreamResetError) as reset:
                    await send_forever(stream)
                assert reset.value.code == ErrorCodes.NO_ERROR
                assert (await stream.response()).status == 413
            with pytest.raises(BodyTooLargeError):
                await client.request("POST", "/", body=b"x" * 1000, limit=999)

    run(scene())


def test_a_reset_stream_fails_its_handler_and_no_other() -> None:
    failures: list[Exception] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        try:
            await echo(request, response)
        except TransientError as error:
            failures.append(error)
            raise

    async def scene() -> None:
        async with serving(handler) as served, served.client() as client:
            async with (
                await client.open_stream("POST", "/") as other,
                await client.open_stream("POST", "/") as stream,
            ):
                await stream.response()
                stream.reset()
                await other.send(b"still here")
                assert await anext(other.chunks()) == b"still here"
            assert [type(error) for error in failures] == [StreamResetError]

    run(scene())


def test_a_handler_that_does_not_notice_is_cancelled_after_a_while() -> None:
    cancelled_at: list[float] = []

    async def handler(_request: HttpRequest, response: HttpResponse) -> None:
        await response.start(200)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled_at.append(asyncio.get_running_loop().time())
            raise

    async def scene() -> None:
        async with serving(handler) as served, served.client() as client:
            async with await client.open_stream("GET", "/", end=True) as stream:
                await stream.response()
            before = asyncio.get_running_loop().time()
            await asyncio.sleep(100)
            assert [at - before for at in cancelled_at] == [5.0]

    run(scene())


def test_a_lost_connection_fails_both_ends() -> None:
    failures: list[Exception] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        try:
            await echo(request, response)
        except TransientError as error:
            failures.append(error)
            raise

    async def scene() -> None:
        async with serving(handler) as served, served.client() as client:
            stream = await client.open_stream("POST", "/")
            await stream.response()
            served.network.cut("client", "server")
            with pytest.raises(TransientError):
                await anext(stream.chunks())
            with pytest.raises(TransientError):
                await stream.send(b"x")
            assert not client.usable
            with pytest.raises(TransientError):
                await client.request("GET", "/")
        assert len(failures) == 1

    run(scene())


def test_a_silent_server_is_found_by_pings() -> None:
    async def scene() -> None:
        async with serving() as served, served.client() as client:
            stream = await client.open_stream("POST", "/")
            await stream.response()
            await asyncio.sleep(100)  # with answers to its pings a quiet stream lives
            served.network.connections("client", "server")[0].stall()
            began = asyncio.get_running_loop().time()
            with pytest.raises(TransientError, match="no answer to a ping"):
                await anext(stream.chunks())
            assert 10 <= asyncio.get_running_loop().time() - began <= 30

    run(scene())


def test_head_204_and_100_continue() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        if request.method == "DELETE":
            await response.respond(204, [], b"")
        else:
            await response.respond(200, [], await request.read_body(10) or b"four")

    async def scene() -> None:
        async with serving(handler) as served, served.client() as client:
            head = await client.request("HEAD", "/")
            assert (head.head.headers["content-length"], head.body) == ("4", b"")
            gone = await client.request("DELETE", "/")
            assert (gone.status, gone.body, dict(gone.head.headers)) == (204, b"", {})
            peer = await served.peer()
            number = await peer.request([*REQUEST, ("expect", "100-continue")])
            await peer.wait(InformationalResponseReceived)
            assert not [e for e in peer.events if isinstance(e, ResponseReceived)]
            peer.h2.send_data(number, b"now", end_stream=True)
            await peer.flush()
            await peer.wait(StreamEnded)
            assert peer.body(number) == b"now"

    run(scene())


def test_what_is_no_path_gets_400() -> None:
    async def scene() -> None:
        async with serving() as served:
            peer = await served.peer()
            for path in ("relative", "ftp://x/y"):
                await peer.request([*REQUEST[:1], (":path", path), *REQUEST[2:]], end=True)
            heads = await peer.wait(ResponseReceived, count=2)
            assert [dict(head.headers or [])[":status"] for head in heads] == ["400", "400"]  # type: ignore[attr-defined]

    run(scene())


def test_padding_and_trailers_are_no_part_of_the_body() -> None:
    async def scene() -> None:
        async with serving(limits=HttpLimits(stream_window_bytes=20_000)) as served:
            peer = await served.peer()
            number = await peer.request()
            for _ in range(500):  # padding, too, must be given back
                while peer.h2.local_flow_control_window(number) < 300:
                    await peer.read()
                peer.h2.send_data(number, b"ab", pad_length=200)
                await peer.flush()
            peer.h2.send_headers(number, [("x-trailer", "1")], end_stream=True)
            await peer.flush()
            await peer.wait(StreamEnded)
            assert peer.body(number) == b"ab" * 500

    run(scene())


def test_streams_go_on_after_the_peer_announced_its_end() -> None:
    async def scene() -> None:
        async with serving() as served:
            peer = await served.peer()
            number = await peer.request()
            await peer.wait(ResponseReceived)
            # by hand: h2 sends nothing after its own GOAWAY; and in two pieces
            goaway = bytes.fromhex("000009 07 00 00000000 00000000 00000000 21")
            await peer.write(goaway[:12])
            await asyncio.sleep(1)
            await peer.write(goaway[12:])
            peer.h2.send_data(number, b"x" * 10 * KIB, end_stream=True)
            await peer.flush()
            await peer.read_to_end()
            assert peer.body(number) == b"x" * 10 * KIB
            assert [e for e in peer.events if isinstance(e, ConnectionTerminated)]
            assert not [e for e in peer.events if isinstance(e, StreamReset)]

    run(scene())


def test_requests_above_the_servers_limit_wait_for_a_place() -> None:
    running: list[int] = [0, 0]  # now, and the most

    async def handler(_request: HttpRequest, response: HttpResponse) -> None:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(1)
        running[0] -= 1
        await response.respond(200, [], b"")

    async def scene() -> None:
        async with (
            serving(handler, HttpLimits(concurrent_streams=3)) as served,
            served.client() as client,
        ):
            assert (await client.request("GET", "/")).status == 200  # SETTINGS have come
            answers = await asyncio.gather(*(client.request("GET", "/") for _ in range(20)))
            assert [answer.status for answer in answers] == [200] * 20
            assert running[1] == 3

    run(scene())


def test_tls_needs_the_same_protocol_on_both_ends() -> None:
    async def scene() -> None:
        async with serving(tls=True) as served:
            async with served.client(tls=True) as client:
                assert (await client.request("POST", "/", body=b"x")).body == b"x"
            served.network.link("client", "server").alpn = False
            with pytest.raises(RejectedError, match="does not speak HTTP/2"):
                await served.client(tls=True).connect()
            assert served.client().usable is False
            assert PORT

    run(scene())


def test_bodies_that_no_handler_reads_do_not_use_up_the_window() -> None:
    async def handler(_request: HttpRequest, response: HttpResponse) -> None:
        await asyncio.sleep(0.1)  # the body has arrived before the response
        await response.respond(404, [], b"x" * 50_000)

    async def scene() -> None:
        small = HttpLimits(stream_window_bytes=70_000, connection_window_bytes=100_000)
        async with serving(handler, small) as served, served.client(small) as client:
            for _ in range(20):
                async with await client.open_stream("POST", "/") as stream:
                    await stream.send(b"x" * 60_000)
                    await stream.end_sending()
                    assert (await stream.response()).status == 404
                    await asyncio.sleep(0.1)  # nor does the client read the response

    run(scene())


def test_above_the_budget_only_connections_that_hold_bytes_wait() -> None:
    go = asyncio.Event()

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        if request.path == "/slow":
            await go.wait()
        await response.respond(200, [], await request.read_body(MIB))

    async def scene() -> None:
        limits = HttpLimits(held_body_bytes=200_000)
        async with serving(handler, limits) as served, served.client() as client:
            slow = [
                asyncio.create_task(client.request("POST", "/slow", body=b"x" * 150_000))
                for _ in range(5)
            ]
            await asyncio.sleep(1)
            async with served.client() as other:
                fast = await other.request("POST", "/", body=b"y" * 100_000)
                assert fast.body == b"y" * 100_000
            assert not any(task.done() for task in slow)
            go.set()
            assert [len((await task).body) for task in slow] == [150_000] * 5

    run(scene())
