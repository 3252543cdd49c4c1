"""TLS over loopback: which peers are accepted, what each side reports, and which dialect is agreed
on.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator

import pytest
import structlog
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream, ClientTls, ServerTls, Transport
from logdrive.net.tcp import SystemTransport
from tests.conftest import need_program
from tests.logdrive.net.loopback import Echo, eventually, listening, run
from tests.support.pki import DIALECTS, Pki

Log = list[structlog.typing.EventDict]


@pytest.fixture
def log() -> Iterator[Log]:
    with structlog.testing.capture_logs() as lines:
        yield lines


def refusals(log: Log) -> list[str]:
    return [
        str(line["reason"])
        for line in log
        if line["event"] == "connection refused" and line["log_level"] == "warning"
    ]


async def talk(
    transport: Transport, port: int, tls: ClientTls | None, host: str = "127.0.0.1"
) -> bytes:
    """Connect, send a few bytes, return the answer: under TLS 1.3 a refusal may come only with the
    first read.
    """
    stream = await transport.connect(host, port, tls)
    try:
        await stream.write([b"hello ", b"there"])
        return await stream.read()
    finally:
        await stream.close()


def stdlib_client(
    pki: Pki, version: ssl.TLSVersion, *, with_certificate: bool = True
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=pki.path("ca.pem"))
    context.minimum_version = context.maximum_version = version
    if with_certificate:
        context.load_cert_chain(pki.path("client.pem"), pki.path("client.key"))
    return context


def test_both_sides_know_each_other_and_the_dialect(pki: Pki) -> None:
    async def scenario() -> None:
        echo = Echo()
        async with listening(pki.server(), echo) as port:
            stream = await SystemTransport().connect("localhost", port, pki.client())
            await stream.write([b"ping"])
            assert await stream.read() == b"ping"
            theirs = echo.streams[0].peer
            assert (stream.peer.address, stream.peer.identity, stream.peer.secure) == (
                f"localhost:{port}",
                "dns:localhost",
                True,
            )
            assert (theirs.identity, theirs.secure) == ("dns:client.example", True)
            assert theirs.address.startswith("127.0.0.1:")
            assert stream.peer.alpn == theirs.alpn == "logdrive/1"
            await stream.close()

    run(scenario())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_another_tls_library_as_client_in_both_versions(pki: Pki, version: ssl.TLSVersion) -> None:
    async def scenario() -> None:
        async with listening(pki.server(), Echo()) as port:
            reader, writer = await asyncio.open_connection(
                "localhost", port, ssl=stdlib_client(pki, version)
            )
            assert writer.get_extra_info("ssl_object").version() == version.name.replace("_", ".")
            writer.write(b"x" * 100_000)
            assert await reader.readexactly(100_000) == b"x" * 100_000
            writer.close()

    run(scenario())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_another_tls_library_as_server_in_both_versions(pki: Pki, version: ssl.TLSVersion) -> None:
    async def scenario() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pki.path("ca.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = context.maximum_version = version
        context.load_cert_chain(pki.path("server.pem"), pki.path("server.key"))

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(11))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        async with server:
            assert (
                await talk(SystemTransport(), server.sockets[0].getsockname()[1], pki.client())
                == b"hello there"
            )

    run(scenario())


def test_tls_1_1_is_refused(pki: Pki, log: Log) -> None:
    async def scenario() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        async with listening(pki.server(), Echo()) as port:
            with pytest.raises(OSError):  # noqa: PT011 - whatever the library makes of the alert
                await asyncio.open_connection("127.0.0.1", port, ssl=context)
            await eventually(lambda: refusals(log))

    run(scenario())
    assert "protocol" in refusals(log)[0]


@pytest.mark.parametrize(
    ("offered", "spoken", "agreed"),
    [
        (("lumberjack/2", "logdrive/1"), DIALECTS, "logdrive/1"),  # the server's order decides
        (("lumberjack/2",), DIALECTS, "lumberjack/2"),
        (("h2",), DIALECTS, None),  # none in common goes on without, as deployed peers need
        ((), DIALECTS, None),
        (DIALECTS, (), None),
    ],
)
def test_alpn(
    pki: Pki, offered: tuple[str, ...], spoken: tuple[str, ...], agreed: str | None
) -> None:
    async def scenario() -> None:
        echo = Echo()
        async with listening(pki.server(alpn=spoken), echo) as port:
            stream = await SystemTransport().connect("127.0.0.1", port, pki.client(alpn=offered))
            await stream.write([b"x"])
            assert await stream.read() == b"x"
            assert stream.peer.alpn == echo.streams[0].peer.alpn == agreed
            await stream.close()

    run(scenario())


@pytest.mark.parametrize(
    ("server", "client", "told_client", "told_server"),
    [
        (
            "server",
            ("client", "stranger-ca.pem", None),
            r"refused: self-signed certificate in certificate chain.*key ca",
            "unknown ca",
        ),
        (
            "elsewhere",
            ("client", "ca.pem", None),
            r"hostname mismatch: it speaks for other.example, not for 127.0.0.1",
            "does not speak for",
        ),
        (
            "server",
            ("client", "ca.pem", "other.example"),
            r"speaks for localhost, 127.0.0.1, not for other.example",
            "does not speak for",
        ),
        (
            "expired",
            ("client", "ca.pem", None),
            r"certificate has expired, on \d{4}-\d\d-\d\d \(CN=localhost\): renew it",
            "expired",
        ),
        (
            "server",
            (None, "ca.pem", None),
            r"certificate required.*set cert and key",
            "brought no certificate",
        ),
        (
            "server",
            ("stranger", "ca.pem", None),
            r"unknown ca.*trusted.*stranger.pem",
            "local issuer certificate",
        ),
        (
            "server",
            ("expired-client", "ca.pem", None),
            r"certificate has expired: renew it.*expired-client.pem|expired",
            "certificate has expired",
        ),
        (
            "server",
            ("server", "ca.pem", None),
            r"certificate.*server.pem",
            "unsuitable certificate purpose",
        ),
    ],
)
def test_a_wrong_certificate_is_refused_and_both_sides_say_why(
    pki: Pki,
    log: Log,
    server: str,
    client: tuple[str | None, str, str | None],
    told_client: str,
    told_server: str,
) -> None:
    stem, ca, name = client

    async def scenario() -> None:
        async with listening(pki.server(server), Echo()) as port:
            with pytest.raises(TransientError, match=told_client) as caught:
                await talk(SystemTransport(), port, pki.client(stem, ca=ca, name=name))
            assert str(caught.value).startswith(f"127.0.0.1:{port}: ")
            assert "\n" not in str(caught.value)
            await eventually(lambda: refusals(log))
            if server == "server":  # others are served on
                assert await talk(SystemTransport(), port, pki.client()) == b"hello there"

    run(scenario())
    assert len(refusals(log)) == 1
    assert told_server in refusals(log)[0]


def test_a_client_without_a_certificate_is_served_where_none_is_asked_for(pki: Pki) -> None:
    async def scenario() -> None:
        echo = Echo()
        async with listening(pki.server(ca=None), echo) as port:
            assert await talk(SystemTransport(), port, pki.client(None)) == b"hello there"
            assert echo.streams[0].peer.identity == ""
            assert echo.streams[0].peer.secure

    run(scenario())


def test_a_pinned_server_certificate_is_trusted_without_its_signer(pki: Pki) -> None:
    async def scenario() -> None:
        async with listening(pki.server(), Echo()) as port:
            assert (
                await talk(SystemTransport(), port, pki.client(ca="server.pem")) == b"hello there"
            )

    run(scenario())


@pytest.mark.parametrize(
    "garbage",
    [
        b"2W\x00\x00\x00\x01",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01" + b"\xff" * 600,
        bytes(1000),
    ],
)
def test_a_peer_without_tls_is_one_warning_and_others_go_on(
    pki: Pki, log: Log, garbage: bytes
) -> None:
    async def scenario() -> None:
        async with listening(pki.server(), Echo()) as port:
            good = await SystemTransport().connect("127.0.0.1", port, pki.client())
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(garbage)
            await reader.read()
            writer.close()
            await good.write([b"still here"])
            assert await good.read() == b"still here"
            await good.close()

    run(scenario())
    assert len(refusals(log)) == 1


def test_a_plain_client_of_a_tls_port_is_told_what_is_wrong_on_the_server(
    pki: Pki, log: Log
) -> None:
    async def scenario() -> None:
        async with listening(pki.server(), Echo()) as port:
            stream = await SystemTransport().connect("127.0.0.1", port, None)
            await stream.write([b"2W\x00\x00\x00\x01"])
            await eventually(lambda: refusals(log))
            await stream.close()

    run(scenario())
    assert "is TLS on at both ends?" in refusals(log)[0]


@pytest.mark.parametrize("answer", [b"", b"\x00\x00\x00\x00 no TLS here\n"])
def test_a_tls_client_of_a_plain_port_is_told_what_is_wrong(pki: Pki, answer: bytes) -> None:
    async def scenario() -> None:
        async def dismiss(stream: ByteStream) -> None:
            await stream.read()
            await stream.write([answer])

        async with listening(None, dismiss) as port:
            with pytest.raises(TransientError, match="is TLS on at both ends"):
                await talk(SystemTransport(), port, pki.client())

    run(scenario())


@pytest.mark.parametrize(
    ("said", "expected_reason"),
    [(b"", "said nothing for 0.2 s"), (b"\x16\x03\x01", "did not end within 0.2 s")],
)
def test_a_handshake_that_stalls_ends_in_time_on_both_sides(
    pki: Pki, log: Log, said: bytes, expected_reason: str
) -> None:
    async def scenario() -> None:
        hasty = SystemTransport(handshake_timeout=0.2)
        async with listening(pki.server(), Echo(), hasty) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            await eventually(lambda: refusals(log))
            writer.close()
        silent = socket.create_server(("127.0.0.1", 0))
        with silent, pytest.raises(TransientError, match=r"handshake did not end within 0\.2 s"):
            await hasty.connect("127.0.0.1", silent.getsockname()[1], pki.client())

    run(scenario())
    assert expected_reason in refusals(log)[0]


def test_a_probe_that_only_connects_is_no_warning(pki: Pki, log: Log) -> None:
    async def scenario() -> None:
        async with listening(pki.server(), Echo()) as port:
            for _ in range(3):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
            assert await talk(SystemTransport(), port, pki.client()) == b"hello there"

    run(scenario())
    assert refusals(log) == []


def test_a_peer_that_changes_its_keys_in_mid_stream_is_followed(pki: Pki) -> None:
    need_program("openssl")

    async def scenario() -> None:
        # a K alone on a line asks s_client for a key update
        said = (b"one\n", b"K\n", b"two\n", b"k\n", b"three\n", b"K\n", b"four\n")
        async with listening(pki.server(), Echo()) as port:
            files = [
                "-cert",
                pki.path("client.pem"),
                "-key",
                pki.path("client.key"),
                "-CAfile",
                pki.path("ca.pem"),
            ]
            command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_3", *files]
            pipe = asyncio.subprocess.PIPE
            client = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
            )
            assert client.stdin is not None
            assert client.stdout is not None
            found = b""
            try:
                for line in said:
                    client.stdin.write(line)
                    while len(line) > 2 and line not in found:
                        found += await client.stdout.read(4096)
                    await asyncio.sleep(0.05)
            finally:
                client.kill()
                await client.wait()

    run(scenario())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_not_kept_and_a_client_that_offers_one_gets_a_full_handshake(
    pki: Pki, version: ssl.TLSVersion
) -> None:
    context = stdlib_client(pki, version)

    def twice(port: int) -> bool:
        """Return whether the second connection, which offers the first one's session, resumed
        it.
        """
        session = None
        for _ in range(2):
            sock = socket.create_connection(("127.0.0.1", port))
            with context.wrap_socket(sock, server_hostname="localhost", session=session) as secure:
                secure.sendall(b"x")
                assert secure.recv(1) == b"x"
                session = secure.session
        return bool(secure.session_reused)

    async def scenario() -> None:
        async with listening(pki.server(), Echo()) as port:
            assert not await asyncio.to_thread(twice, port)

    run(scenario())


def test_old_clients_get_a_cipher_in_cbc_mode(pki: Pki) -> None:
    """Receiver rule 15: logstash-output-lumberjack on an old Java knows no other cipher."""

    async def scenario() -> None:
        context = stdlib_client(pki, ssl.TLSVersion.TLSv1_2)
        context.set_ciphers("ECDHE-ECDSA-AES128-SHA256")
        async with listening(pki.server(), Echo()) as port:
            reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
            writer.write(b"old")
            assert await reader.readexactly(3) == b"old"
            writer.close()

    run(scenario())


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_keys_of_both_forms_serve_and_a_client_may_go_without_name_and_sni(
    pki: Pki, form: PrivateFormat
) -> None:
    """Receiver rule 15: PKCS#8 and the older form; pylogbeat sends no SNI and checks no name."""
    key = load_pem_private_key((pki.directory / "server.key").read_bytes(), None)
    (pki.directory / "formed.key").write_bytes(
        key.private_bytes(Encoding.PEM, form, NoEncryption())
    )
    settings = ServerTls(pki.path("server.pem"), pki.path("formed.key"), pki.path("ca.pem"))

    async def scenario() -> None:
        context = stdlib_client(pki, ssl.TLSVersion.TLSv1_3)
        context.check_hostname = False
        async with listening(settings, Echo()) as port:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=""
            )
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            writer.close()

    run(scenario())


def test_a_renewed_certificate_is_used_by_the_next_connection(pki: Pki, log: Log) -> None:
    async def scenario() -> None:
        pki.add("renewed", ["localhost", "127.0.0.1"], server=True, age_days=60)
        settings: ServerTls = pki.server("renewed")
        async with listening(settings, Echo()) as port:
            with pytest.raises(TransientError, match="expired"):
                await talk(SystemTransport(), port, pki.client())
            pki.add("renewed", ["localhost", "127.0.0.1"], server=True)
            assert await talk(SystemTransport(), port, pki.client()) == b"hello there"
            (pki.directory / "renewed.key").write_text("half a file")
            assert await talk(SystemTransport(), port, pki.client()) == b"hello there"

    run(scenario())
    assert any("former ones are used" in line["event"] for line in log)
