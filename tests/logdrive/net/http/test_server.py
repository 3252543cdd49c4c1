"""One socket for both versions, TLS, and the end of a server."""

import asyncio
import shutil
import ssl
from pathlib import Path
from random import Random

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import TransientError
from logdrive.net.http.exchange import HttpRequest, HttpResponse
from logdrive.net.http.limits import PREFACE
from logdrive.net.http.server import ALPN, HttpServer
from tests.logdrive.net.http.support import REQUEST, RawPeer, echo, serving
from tests.logdrive.net.loopback import listening
from tests.logdrive.net.loopback import run as run_loopback
from tests.support.pki import Pki
from tests.support.virtual_time import run

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this host")


async def version(request: HttpRequest, response: HttpResponse) -> None:
    await response.respond(200, [], f"{request.version} {request.path}".encode())


def test_the_settings_come_first_and_are_those_of_the_limits() -> None:
    async def scene() -> None:
        async with serving() as served:
            peer = await served.peer()
            (changed,) = [e for e in peer.events if isinstance(e, RemoteSettingsChanged)]
            values = {code: change.new_value for code, change in changed.changed_settings.items()}
            assert values[SettingCodes.MAX_CONCURRENT_STREAMS] == 200
            assert values[SettingCodes.INITIAL_WINDOW_SIZE] == 1024 * 1024
            assert values[SettingCodes.MAX_FRAME_SIZE] == 1024 * 1024
            assert values[SettingCodes.MAX_HEADER_LIST_SIZE] == 16_384

    run(scene())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 24))
def test_the_first_bytes_choose_the_version_whatever_the_splits(seed: int, cut: int) -> None:
    async def scene() -> None:
        async with serving(version, random=Random(seed)) as served:
            h2 = H2Connection(H2Configuration(client_side=True))
            h2.initiate_connection()
            h2.send_headers(1, REQUEST, end_stream=True)
            data = h2.data_to_send()
            peer = RawPeer(await served.connect())
            peer.h2 = h2
            await peer.write(data[:cut])
            await asyncio.sleep(1)
            await peer.write(data[cut:])
            await peer.wait(StreamEnded)
            assert peer.body(1) == b"2 /echo"
            stream = await served.connect()
            await stream.write([b"PRINT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"])
            answer = b""
            while got := await stream.read():
                answer += got
            assert answer.endswith(b"1.1 /")

    run(scene())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.lists(st.binary(max_size=60), max_size=30))
def test_garbage_ends_the_connection_and_nothing_else(
    seed: int, preface: bool, garbage: list[bytes]
) -> None:
    random = Random(seed)
    frames = [
        len(payload).to_bytes(3, "big")
        + bytes([random.randrange(12), random.randrange(256)])
        + random.randrange(6).to_bytes(4, "big")
        + payload
        for payload in garbage
    ]

    async def scene() -> None:
        async with serving(random=random) as served:
            stream = await served.connect()
            try:
                start = PREFACE + bytes.fromhex("0000000400 00000000") if preface else b""
                await stream.write([start, *frames])
                await asyncio.sleep(1)
                await stream.end_writing()
                while await stream.read():
                    pass
            except TransientError:
                pass
            async with served.client() as client:
                assert (await client.request("POST", "/", body=b"fine")).body == b"fine"

    run(scene())


def test_draining_ends_connections_when_they_have_no_request() -> None:
    async def scene() -> None:
        async with serving() as served:
            idle, busy, plain = await served.peer(), await served.peer(), await served.connect()
            await plain.write([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab"])
            assert (await plain.read()).startswith(b"HTTP/1.1 200")
            waiting = await served.connect()
            number = await busy.request()
            await busy.wait(ResponseReceived)
            served.server.begin_drain()
            with pytest.raises(TransientError):
                await waiting.read()
            (end,) = [e for e in await idle.read_to_end() if isinstance(e, ConnectionTerminated)]
            assert end.error_code == ErrorCodes.NO_ERROR

            # what is under way goes on, and a busy connection still gets new requests
            await asyncio.sleep(50)
            second = await busy.request()
            busy.h2.send_data(second, b"b", end_stream=True)
            busy.h2.send_data(number, b"a", end_stream=True)
            await busy.flush()
            events: list[Event] = await busy.read_to_end()
            assert (busy.body(number), busy.body(second)) == (b"a", b"b")
            assert not [e for e in events if isinstance(e, StreamReset)]
            ends = [e for e in events if isinstance(e, ConnectionTerminated)]
            assert [(e.error_code, e.last_stream_id) for e in ends] == [(0, second)]
            await plain.write([b"cd"])
            while await plain.read():
                pass

    run(scene())


def test_closing_resets_what_is_left_after_the_grace() -> None:
    ends: list[str] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        try:
            await echo(request, response)
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        async with serving(handler) as served:
            peer, plain = await served.peer(), await served.connect()
            number = await peer.request()
            await plain.write([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab"])
            closing = asyncio.create_task(served.server.close(10))
            began = loop.time()
            events = await peer.read_to_end()
            assert loop.time() - began == pytest.approx(10, abs=0.1)
            resets = [e.stream_id for e in events if isinstance(e, StreamReset)]
            assert resets == [number]
            assert (await plain.read()).startswith(b"HTTP/1.1 200")
            with pytest.raises(TransientError):
                await plain.read()
            await closing
        assert len(ends) == 2

    run(scene())


def test_python_s_tls_and_h2_agree_on_http_2(pki: Pki) -> None:
    async def scene() -> None:
        server = HttpServer(version)
        async with listening(pki.server(ca=None, alpn=ALPN), server.serve_connection) as port:
            for offered, expected in (
                (["http/1.1", "h2"], "h2"),  # the server's preference decides
                (["http/1.1"], "http/1.1"),
                (["other"], None),
                ([], None),
            ):
                context = ssl.create_default_context(cafile=pki.path("ca.pem"))
                context.set_alpn_protocols(offered)
                reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
                agreed = writer.get_extra_info("ssl_object").selected_alpn_protocol()
                assert agreed == expected
                # without an agreement the first bytes decide
                for body in [await _ask(reader, writer, http2=expected in ("h2", None))]:
                    assert body == (b"2 /echo" if expected != "http/1.1" else b"1.1 /echo")
                writer.close()
        await server.close(0)

    run_loopback(scene())


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, http2: bool) -> bytes:
    """Return the body of a response."""
    if not http2:
        writer.write(b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return (await reader.read()).partition(b"\r\n\r\n")[2]
    h2 = H2Connection(H2Configuration(client_side=True))
    h2.initiate_connection()
    h2.send_headers(1, [(":method", "GET"), *REQUEST[1:]], end_stream=True)
    writer.write(h2.data_to_send())
    body = b""
    while data := await reader.read(1000):
        for event in h2.receive_data(data):
            body += getattr(event, "data", b"") if type(event).__name__ == "DataReceived" else b""
            if isinstance(event, StreamEnded):
                return body
    return body


@needs_curl
@pytest.mark.parametrize("option", ["--http1.1", "--http2-prior-knowledge"])
def test_curl_gets_back_what_it_sends(option: str, tmp_path: Path) -> None:
    sent = Random(1).randbytes(3_000_000)
    (tmp_path / "sent").write_bytes(sent)

    async def scene() -> None:
        server = HttpServer(echo)
        async with listening(None, server.serve_connection) as port:
            url = f"http://127.0.0.1:{port}/"
            assert await _curl(option, "--data-binary", f"@{tmp_path / 'sent'}", url) == sent
            assert await _curl(option, "-T", str(tmp_path / "sent"), url) == sent
        await server.close(0)

    run_loopback(scene(), 60)


@needs_curl
@pytest.mark.parametrize(("option", "said"), [("--http1.1", b"1.1 /x"), ("--http2", b"2 /x")])
def test_curl_speaks_both_versions_over_tls(option: str, said: bytes, pki: Pki) -> None:
    async def scene() -> None:
        server = HttpServer(version)
        async with listening(pki.server(ca=None, alpn=ALPN), server.serve_connection) as port:
            url = f"https://localhost:{port}/x"
            assert await _curl(option, "--cacert", pki.path("ca.pem"), url) == said
        await server.close(0)

    run_loopback(scene(), 60)


async def _curl(*arguments: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "-m", "30", *arguments, stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await process.communicate()
    assert process.returncode == 0
    return answer
