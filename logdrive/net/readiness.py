"""Waiting for a non-blocking socket outside of a stream: for handshakes, and before closing."""

import asyncio
import contextlib
import socket

from logdrive.model.units import MIB
from logdrive.net.wires import READ_BYTES, Want

_DRAIN_BYTES = 4 * MIB
"""Limit on what is read and dropped before closing."""


async def wait_ready(sock: socket.socket, want: Want) -> None:
    """Return once *sock* is readable, or writable, as *want* says."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    add, remove = (
        (loop.add_reader, loop.remove_reader)
        if want is Want.READ
        else (loop.add_writer, loop.remove_writer)
    )
    add(sock, _resolve, ready)
    try:
        await ready
    finally:
        if sock.fileno() >= 0:  # not closed meanwhile
            remove(sock)


def _resolve(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


async def drain_unread(sock: socket.socket, seconds: float) -> None:
    """End our side, then read and drop what still comes, until the peer ends its side, or for
    *seconds*; to be called before closing.

    Closing a socket with unread bytes resets the connection, and the reset may overtake what was
    written last: an acknowledgement, or the alert with the reason.
    """
    left = _DRAIN_BYTES
    with contextlib.suppress(OSError, TimeoutError):
        sock.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(seconds):
            while left > 0:
                try:
                    data = sock.recv(READ_BYTES)
                except BlockingIOError:
                    await wait_ready(sock, Want.READ)
                    continue
                if not data:
                    return
                left -= len(data)
