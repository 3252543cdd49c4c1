"""Waiting for a non-blocking socket outside of a stream: handshakes, and the last words of a
connection.
"""

import asyncio
import contextlib
import socket

from logdrive.model.units import MIB
from logdrive.net.wires import READ_BYTES, Want

_DRAIN_BYTES = 4 * MIB


async def wait_ready(sock: socket.socket, want: Want) -> None:
    """Return once *sock* is what *want* says."""
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
    """Say that nothing more is written, and drop what still comes, until the peer's end or for
    *seconds*.

    A socket closed with bytes unread resets the connection, and the reset may overtake what was
    written last: an acknowledgement, or the alert that says why.
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
