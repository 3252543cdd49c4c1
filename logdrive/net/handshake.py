"""The TLS handshake on a non-blocking socket, within a time limit."""

import asyncio
import socket

from OpenSSL import SSL

from logdrive.errors import TransientError
from logdrive.host.transport import Peer
from logdrive.net.failures import tls_failure
from logdrive.net.identity import identity_of
from logdrive.net.readiness import wait_ready
from logdrive.net.verification import Handshake
from logdrive.net.wires import Want


class SilentPeerError(TransientError):
    """The peer closed the connection without a byte, as the probes of load balancers do."""


async def complete_handshake(
    connection: SSL.Connection, sock: socket.socket, address: str, seconds: float
) -> Peer:
    """Complete the handshake within *seconds*, and return the peer.

    Raises `TransientError` with the reason, after which the caller closes the socket.
    """
    try:
        async with asyncio.timeout(seconds):
            await _finish(connection, sock)
    except TimeoutError as error:
        raise TransientError(
            f"{address}: the TLS handshake did not end within {seconds:g} s"
        ) from error
    except SSL.Error as error:
        handshake = connection.get_app_data()
        raise tls_failure(
            address, error, handshake if isinstance(handshake, Handshake) else None
        ) from error

    alpn = connection.get_alpn_proto_negotiated().decode("ascii", "replace")
    identity = identity_of(connection.get_peer_certificate(as_cryptography=True))
    return Peer(address, identity, alpn or None, secure=True)


async def _finish(connection: SSL.Connection, sock: socket.socket) -> None:
    while True:
        try:
            connection.do_handshake()
        except SSL.WantReadError:
            await wait_ready(sock, Want.READ)
        except SSL.WantWriteError:
            await wait_ready(sock, Want.WRITE)
        else:
            return


async def wait_first_byte(sock: socket.socket, address: str, seconds: float) -> None:
    """Return once the first byte is there, which is not read.

    Raises `SilentPeerError` if the peer closes before, and `TransientError` after *seconds*.
    """
    try:
        async with asyncio.timeout(seconds):
            await wait_ready(sock, Want.READ)
        # readable without a byte: the peer has closed
        if sock.recv(1, socket.MSG_PEEK):
            return
    except TimeoutError as error:
        raise TransientError(
            f"{address}: it connected and said nothing for {seconds:g} s: the TLS "
            "handshake did not begin"
        ) from error
    except OSError:  # a reset is no other than an end here
        pass
    raise SilentPeerError(f"{address}: it left before the handshake")
