"""A store's controller over gRPC takes renewed certificates, and none that can't be used."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from logdrive.errors import ConfigError
from logdrive.host.disk import SystemDisk
from logdrive.host.transport import ServerTls
from logdrive.services.pravega.server.controller.grpc_listener import serve_rpc_over_grpc
from tests.support.pki import Pki


def _tls(pki: Pki) -> ServerTls:
    return ServerTls(pki.path("server.pem"), pki.path("server.key"), pki.path("ca.pem"))


@contextlib.asynccontextmanager
async def _served(pki: Pki) -> AsyncIterator[int]:
    handlers = grpc.method_handlers_generic_handler("none", {})
    async with serve_rpc_over_grpc(handlers, ("127.0.0.1", 0), _tls(pki), SystemDisk()) as port:
        yield port


def _names(pki: Pki, port: int) -> list[str]:
    """Return for which names the certificate is that a new connection gets."""
    context = ssl.create_default_context(cafile=pki.path("ca.pem"))
    context.check_hostname = False
    context.load_cert_chain(pki.path("client.pem"), pki.path("client.key"))
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain) as stream,
    ):
        found = stream.getpeercert()
    assert found is not None
    names: Any = found["subjectAltName"]
    return [name for _, name in names]


def test_a_renewed_certificate_is_used_from_the_next_connection_on(tmp_path: Path) -> None:
    pki = Pki.make(tmp_path)

    async def main() -> list[list[str]]:
        async with _served(pki) as port:
            before = await asyncio.to_thread(_names, pki, port)
            pki.add("server", ["renewed.example"], server=True)
            return [before, await asyncio.to_thread(_names, pki, port)]

    before, after = asyncio.run(main())
    assert "localhost" in before
    assert after == ["renewed.example"]


def test_half_a_renewal_leaves_the_former_in_use_and_is_told_once(tmp_path: Path) -> None:
    pki = Pki.make(tmp_path)

    async def main() -> list[list[str]]:
        async with _served(pki) as port:
            pki.add("other", ["renewed.example"], server=True)
            Path(pki.path("server.pem")).write_bytes(Path(pki.path("other.pem")).read_bytes())
            half = [await asyncio.to_thread(_names, pki, port) for _ in range(2)]
            Path(pki.path("server.key")).write_bytes(Path(pki.path("other.key")).read_bytes())
            return [*half, await asyncio.to_thread(_names, pki, port)]

    with capture_logs() as said:
        first, second, whole = asyncio.run(main())
    assert "localhost" in first
    assert first == second
    assert whole == ["renewed.example"]
    (told,) = [one for one in said if "the former ones are used" in one["event"]]
    assert "not the private key" in told["reason"]


def test_a_client_without_a_certificate_is_refused(tmp_path: Path) -> None:
    pki = Pki.make(tmp_path)

    def knock(port: int) -> bytes:
        context = ssl.create_default_context(cafile=pki.path("ca.pem"))
        context.set_alpn_protocols(["h2"])
        with (
            contextlib.suppress(OSError),  # the alert that refuses it, or the end
            socket.create_connection(("127.0.0.1", port), 10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as stream,
        ):
            stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            return stream.recv(4096)
        return b""

    async def main() -> bytes:
        async with _served(pki) as port:
            return await asyncio.to_thread(knock, port)

    assert asyncio.run(main()) == b"", "settings are sent once a client is known"


def test_files_that_can_t_be_used_are_named_at_the_start(tmp_path: Path) -> None:
    pki = Pki.make(tmp_path)
    Path(pki.path("server.key")).write_bytes(Path(pki.path("client.key")).read_bytes())

    async def main() -> None:
        async with _served(pki):
            pass

    with pytest.raises(ConfigError) as caught:
        asyncio.run(main())
    assert caught.value.mistakes[0].key == "key"
    assert "not the private key" in caught.value.mistakes[0].remedy
