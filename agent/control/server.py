"""Control server: listens at a Unix socket, and passes each request to the control desk.

The socket is made under another name, given its mode, and then renamed to its own: nobody can
connect before it has that mode, and the socket that a killed agent left is replaced. One that
another process listens at is left alone.
"""

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from agent.config.control import SOCKET_PATH_BYTES, SOCKET_SUFFIX
from agent.control.messages import REQUEST_BYTES, ControlAnswer, encode_answer
from logdrive.errors import file_error_text

SOCKET_MODE: Final = 0o660
"""The agent's user and group may ask, and root."""
_MOST_CONNECTIONS: Final = 16
"""Limit on connections at a time: more are closed at once."""
_SECONDS: Final = 10.0
"""Limit on the time of one request, and on that of its answer."""
_BUSY = encode_answer(ControlAnswer(ok=False, error="too many ask at once: try again"))
_TOO_LONG = encode_answer(
    ControlAnswer(ok=False, error=f"a request has at most {REQUEST_BYTES} bytes")
)

AnswerLine = Callable[[bytes], Awaitable[bytes]]


@contextlib.asynccontextmanager
async def serve_control(path: str, answer: AnswerLine, log: Any) -> AsyncIterator[None]:
    """Answer requests at the socket *path* inside the context; at none for "".

    An agent without its control socket still delivers: where it can't be made, a warning says why.
    """
    connections = _Connections(answer)
    try:
        listener = await _listen(path, connections) if path else None
    except OSError as error:
        listener = None
        log.warning(
            "no control socket: `agent status` and `agent source` can't ask this agent",
            socket=path,
            reason=file_error_text(error),
        )
    try:
        yield
    finally:
        if listener is not None:
            listener.close()
            with contextlib.suppress(OSError):
                os.unlink(path)
            await connections.close()


async def _listen(path: str, connections: "_Connections") -> asyncio.Server:
    """Return a server that listens at *path*. Raises OSError."""
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise OSError(
            f"its path has more than {SOCKET_PATH_BYTES} bytes: write a shorter one as `socket` in "
            "[control]"
        )
    if _is_served(path):
        raise OSError("another process listens there")
    # the socket of an agent that was killed is replaced, a file of somebody else's never
    if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise OSError("it is there, and is no socket")

    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    temporary = path + SOCKET_SUFFIX
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        listening.bind(temporary)
        os.chmod(temporary, SOCKET_MODE)
        server = await asyncio.start_unix_server(
            connections.serve, sock=listening, limit=REQUEST_BYTES
        )
        os.replace(temporary, path)
    except OSError:
        listening.close()
        raise
    return server


def _is_served(path: str) -> bool:
    """Return whether a process listens at *path*."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True  # its queue is full
        except OSError:
            return False
        return True


class _Connections:
    """Serves connections, so many at a time."""

    def __init__(self, answer: AnswerLine) -> None:
        self._answer = answer
        self._tasks: set[asyncio.Task[Any]] = set()  # one a connection

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(2 * _SECONDS):
                writer.write(await self._answer_one(reader))
                await writer.drain()
        # the agent ends: asyncio would report a task that ends as cancelled
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        """End all connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer_one(self, reader: asyncio.StreamReader) -> bytes:
        if len(self._tasks) > _MOST_CONNECTIONS:
            return _BUSY
        try:
            async with asyncio.timeout(_SECONDS):
                line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            return _TOO_LONG
        except asyncio.IncompleteReadError:
            return b""  # it only looked whether somebody listens
        return await self._answer(line)
