"""A bound socket: accepts connections up to a limit, and serves each in a task of its own."""

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

from logdrive.errors import ConfigError, TransientError
from logdrive.host.transport import Accept
from logdrive.net.handshake import SilentPeerError
from logdrive.net.readiness import drain_unread
from logdrive.net.system_stream import SystemStream
from logdrive.net.wires import READS_BYTES, read_bytes

_log = structlog.get_logger("logdrive.net")
_ACCEPTS_A_TURN: Final = 64
"""Limit on the connections accepted in one round of the event loop."""
_PAUSE_SECONDS: Final = 1.0
"""Seconds without accepting after the process ran out of file descriptors or memory."""
_QUIET_SECONDS: Final = 10.0
"""Seconds between two warnings of refused connections."""
_ALERT_SECONDS: Final = 1.0
"""Limit on waiting for the peer to read the TLS alert that refuses it."""
_OUT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Admission:
    """The limit on accepted connections, of one listener, or of all others of one transport."""

    def __init__(self, limit: int, reads_bytes: int = READS_BYTES) -> None:
        self.limit = limit  # connections
        self._reads_bytes = reads_bytes  # limit on the reads of one round of the event loop
        self.count = 0  # of the accepted connections that are open
        self._refused = 0  # since the last warning
        self._warned_at = float("-inf")  # on the loop's time

    def read_bytes(self) -> int:
        """Return the limit on one read of a connection, in bytes; it is lower with many of them."""
        return read_bytes(self.count, self._reads_bytes)

    def refuse(self, peer: str, now: float) -> None:
        """Count a refused connection, and log a warning unless there was one just before."""
        self._refused += 1
        if now - self._warned_at >= _QUIET_SECONDS:
            _log.warning(
                "too many connections, new ones are turned away",
                limit=self.limit,
                turned_away=self._refused,
                latest=peer,
            )
            self._warned_at = now
            self._refused = 0


class SystemListener:
    """Implements `Listener`.

    *welcome* makes a stream of an accepted socket, with TLS if that is configured.
    """

    def __init__(
        self,
        sock: socket.socket,
        welcome: Callable[[socket.socket, str], Awaitable[SystemStream]],
        accept: Accept,
        admission: Admission,
    ) -> None:
        name = sock.getsockname()
        # host and port; of a Unix socket its path, and 0
        self.address: tuple[str, int] = (name, 0) if isinstance(name, str) else name[:2]
        self._socket = sock
        self._welcome = welcome  # makes a stream of an accepted socket
        self._accept = accept  # serves a stream until its end
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop holds tasks only weakly
        self._resume: asyncio.TimerHandle | None = None  # of the end of a pause
        self._loop.add_reader(sock, self._accept_waiting)

    def _accept_waiting(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                accepted, address = self._socket.accept()
            # none waits, or it was gone before it was accepted
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF:
                    _log.warning("a connection could not be accepted", reason=str(error))
                    return
                self._pause(error)
                return
            self._start(accepted, peer_name(address))

    def _pause(self, error: OSError) -> None:
        """Accept nothing for a second; the kernel's backlog keeps clients waiting meanwhile."""
        _log.warning(
            "no connections are accepted for a second",
            reason=str(error),
            remedy="raise the limit on open files",
        )
        self._loop.remove_reader(self._socket)
        self._resume = self._loop.call_later(
            _PAUSE_SECONDS, self._loop.add_reader, self._socket, self._accept_waiting
        )

    def _start(self, accepted: socket.socket, peer: str) -> None:
        if self._admission.count >= self._admission.limit:
            self._admission.refuse(peer, self._loop.time())
            accepted.close()
            return
        accepted.setblocking(False)
        self._admission.count += 1
        task = self._loop.create_task(self._serve(accepted, peer), name=f"connection {peer}")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._admission.count -= 1
        self._tasks.discard(task)

    async def _serve(self, accepted: socket.socket, peer: str) -> None:
        with contextlib.closing(accepted):
            try:
                stream = await self._welcome(accepted, peer)
            # a load balancer's probe is no failure
            except SilentPeerError:
                return
            except (TransientError, ConfigError) as error:
                _log.warning(
                    "connection refused", peer=peer, reason=str(error).removeprefix(f"{peer}: ")
                )
                await drain_unread(accepted, _ALERT_SECONDS)
                return

            try:
                await self._accept(stream)
                await stream.close()
            except TransientError as error:
                _log.info("connection lost", peer=peer, reason=str(error).removeprefix(f"{peer}: "))
            # a bug: it must end this connection, not the listener
            except Exception:
                _log.exception("connection failed", peer=peer)
            finally:
                stream.abort()

    async def close(self) -> None:
        """Accept no more connections; open ones stay."""
        if self._resume is not None:
            self._resume.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()


def peer_name(address: Any) -> str:
    """Return `host:port`; an IPv4 client of an IPv6 socket has its IPv4 address, one of a Unix
    socket none.
    """
    if not isinstance(address, tuple):
        return ""
    host, port = address[0], address[1]
    if ":" not in host:
        return f"{host}:{port}"
    mapped = ipaddress.IPv6Address(host.partition("%")[0]).ipv4_mapped
    return f"{mapped}:{port}" if mapped is not None else f"[{host}]:{port}"
