"""A relay on loopback whose connections a test can cut, in front of a real server.

async with TcpRelay(server.port) as relay:
    …connect to relay.port…
    relay.cut()
"""

import asyncio
import contextlib
import socket
import struct
from types import TracebackType
from typing import Self

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close resets


class TcpRelay:
    """Hands bytes both ways between its clients and the server at *to*."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None, "not entered"
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Reset all connections; what is on its way is lost."""
        for writer in self._writers:
            _reset(writer)
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            beyond, ahead = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:  # the server is being started again
            writer.transport.abort()
            return
        self._writers |= {writer, ahead}
        copying = [
            asyncio.create_task(_copy(reader, ahead)),
            asyncio.create_task(_copy(beyond, writer)),
        ]
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
        # a reset, so that a server that was killed can bind its port again at once
        for one in (writer, ahead):
            self._writers.discard(one)
            _reset(one)
        await asyncio.wait(copying)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
