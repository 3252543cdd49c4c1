"""TCP connections with and without TLS, on the running event loop."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Final

from logdrive.address import host_port_text
from logdrive.errors import ConfigError, Mistake, TransientError, UnavailableError, os_error_text
from logdrive.host.transport import Accept, ClientTls, ListenerLimits, Peer, ServerTls
from logdrive.net.contexts import Contexts
from logdrive.net.failures import socket_failure
from logdrive.net.handshake import complete_handshake, wait_first_byte
from logdrive.net.listener import Admission, SystemListener
from logdrive.net.resolve import Address, Resolve, resolve_addresses, spread_addresses
from logdrive.net.system_stream import SystemStream
from logdrive.net.tls import client_connection, client_context, server_connection, server_context
from logdrive.net.wires import PlainWire, TlsWire

_BACKLOG: Final = 1024
# TCP's own keepalives: seconds of idleness, seconds between probes, probes
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
_ADDRESS_REMEDIES: Final = {
    errno.EADDRINUSE: "another program listens there: stop it, or choose another port",
    errno.EADDRNOTAVAIL: (
        "this host does not have that address: 0.0.0.0 and [::] mean all that it has"
    ),
    errno.EACCES: "ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one, or grant it",
}
_MAY_PASS: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
"""Errors that may pass: the other program may end, and an interface may come up later."""


class SystemTransport:
    """Implements `Transport`.

    *max_connections* is the limit on accepted connections of all listeners without limits of their
    own; timeouts are in seconds. *resolve* looks up the addresses of each connection, of which
    *random* chooses.
    """

    def __init__(
        self,
        *,
        max_connections: int = 10_000,
        connect_timeout: float = 10.0,
        handshake_timeout: float = 10.0,
        resolve: Resolve = resolve_addresses,
        random: Random | None = None,
    ) -> None:
        self._resolve = resolve
        self._random = random if random is not None else SystemRandom()
        self._connect_timeout = connect_timeout  # seconds
        self._handshake_timeout = handshake_timeout  # seconds
        self._admission = Admission(max_connections)  # counts accepted connections
        self._client_contexts = Contexts(client_context)
        self._server_contexts = Contexts(server_context)

    async def connect(self, host: str, port: int, tls: ClientTls | None) -> SystemStream:
        """Return a connection, after the TLS handshake.

        Raises `TransientError`, and `ConfigError` for certificates that can't be loaded.
        """
        peer = host_port_text(host, port)
        context = None if tls is None else self._client_contexts.get(tls)
        sock = await self._connect_first(host, port, peer)
        with contextlib.ExitStack() as undo:
            undo.callback(sock.close)
            _tune(sock)
            if tls is None or context is None:
                stream = SystemStream(sock, PlainWire(sock, peer), Peer(peer))
            else:
                connection = client_connection(context, sock, tls.server_name or host)
                verified = await complete_handshake(connection, sock, peer, self._handshake_timeout)
                ours = (
                    f"our certificate {tls.cert}" if tls.cert else "a client without a certificate"
                )
                stream = SystemStream(sock, TlsWire(connection, peer, ours), verified)
            undo.pop_all()
        return stream

    async def _connect_first(self, host: str, port: int, peer: str) -> socket.socket:
        """Return a socket connected to one of the addresses of *host*, the first that answers.

        Each has its share of the time that is left, so that one that does not answer leaves some to
        the others.
        """
        failures: list[str] = []
        until = asyncio.get_running_loop().time() + self._connect_timeout
        try:
            async with asyncio.timeout(self._connect_timeout):
                addresses = spread_addresses(await self._resolve(host, port), self._random)
                for number, address in enumerate(addresses):
                    left = until - asyncio.get_running_loop().time()
                    try:
                        return await _connect(address, left / (len(addresses) - number))
                    except OSError as error:
                        # not the exception's text: asyncio puts only the address into it
                        failures.append(
                            os.strerror(error.errno) if error.errno else os_error_text(error)
                        )

        except TimeoutError as error:
            raise TransientError(f"{peer}: no answer within {self._connect_timeout:g} s") from error
        except socket.gaierror as error:
            raise TransientError(f"{peer}: the name can't be resolved: {error.strerror}") from error

        reasons = ", ".join(dict.fromkeys(failures)) or "the name has no address"
        raise TransientError(f"{peer}: {reasons}: does the other side listen there?")

    async def listen(
        self,
        host: str,
        port: int,
        tls: ServerTls | None,
        accept: Accept,
        limits: ListenerLimits | None = None,
    ) -> SystemListener:
        """Bind and accept connections, each in a task of its own.

        Raises `ConfigError` if the address, or a certificate, can't be used.
        """
        if tls is not None:
            self._server_contexts.get(tls)  # raises now, not with the first client
        sock = await _bind(host, port)
        admission = self._admission
        if limits is not None:
            admission = Admission(limits.connections, limits.reads_bytes)

        async def welcome(accepted: socket.socket, peer: str) -> SystemStream:
            return await self._welcome(accepted, peer, tls, admission.read_bytes)

        return SystemListener(sock, welcome, accept, admission)

    async def _welcome(
        self, sock: socket.socket, peer: str, tls: ServerTls | None, most: Callable[[], int]
    ) -> SystemStream:
        """Return the stream of an accepted socket; *most* returns the limit on one read, in bytes.

        Raises `TransientError` and `ConfigError`; the caller closes the socket then.
        """
        try:
            _tune(sock)
        except OSError as error:
            raise socket_failure(peer, error) from error
        if tls is None:
            return SystemStream(sock, PlainWire(sock, peer, most), Peer(peer))

        connection = server_connection(self._server_contexts.get(tls), sock)
        await wait_first_byte(sock, peer, self._handshake_timeout)
        verified = await complete_handshake(connection, sock, peer, self._handshake_timeout)
        return SystemStream(sock, TlsWire(connection, peer, None, most), verified)


async def _connect(address: Address, seconds: float) -> socket.socket:
    """Return a socket connected to *address*. Raises OSError, after *seconds* with ETIMEDOUT."""
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    with contextlib.ExitStack() as undo:
        undo.callback(sock.close)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_connect(sock, where)
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
        undo.pop_all()
    return sock


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


async def _bind(host: str, port: int) -> socket.socket:
    bound = host_port_text(host, port)
    try:
        family, address = (await resolve_addresses(host, port))[0]
        sock = socket.socket(
            family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        )
    except OSError as error:
        reason = os_error_text(error)
        raise UnavailableError(
            "listen", [Mistake("address", bound, f"{reason}: write host:port")]
        ) from error

    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        # OverflowError: a port above 65535
        number = error.errno if isinstance(error, OSError) else None
        reason = os_error_text(error) if isinstance(error, OSError) else str(error)
        remedy = _ADDRESS_REMEDIES.get(number or 0, "write host:port of this host")
        kind = UnavailableError if number in _MAY_PASS else ConfigError
        raise kind("listen", [Mistake("address", bound, f"{reason}: {remedy}")]) from error
    return sock
