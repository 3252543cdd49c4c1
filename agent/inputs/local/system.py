"""The real standard input, pipes, datagrams and Unix sockets, on the running event loop."""

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import socket
import stat
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from agent.inputs.local.descriptors import DescriptorInput, Readiness
from agent.inputs.local.ports import (
    ByteInput,
    DatagramInput,
    LocalListener,
    PathIdentity,
    RunningProgram,
)
from logdrive.errors import ConfigError, Mistake, UnavailableError, os_error_text
from logdrive.host.executor import Executor, ThreadExecutor
from logdrive.host.transport import Accept, ListenerLimits, Peer
from logdrive.model.units import KIB, MIB
from logdrive.net.listener import Admission, SystemListener, peer_name
from logdrive.net.system_stream import SystemStream
from logdrive.net.wires import PlainWire

_BATCH_BYTES: Final = 256 * KIB
"""Bytes of datagrams that are received before other tasks run."""
_SOCKET_BYTES: Final = 4 * MIB
"""The kernel's buffer for datagrams that wait, as far as the system allows it."""
_BACKLOG: Final = 100
"""Connections to a Unix socket that wait to be accepted."""
_SO_MEMINFO: Final = 55
"""Linux's socket option SO_MEMINFO, which Python does not name; of its figures, drops are the last.
"""
_MEMINFO: Final = struct.Struct("9I")
_DROPS: Final = 8
_STREAM_BYTES: Final = 256 * KIB
"""Limit on one read of a program's output."""
_END_SECONDS: Final = 1.0
"""A program whose output has ended is killed after so long."""


class SocketInput:
    """A bound socket for datagrams."""

    def __init__(self, bound: socket.socket, path: str = "") -> None:
        self._socket = bound
        self._path = path  # of a Unix socket
        self._identity = _identity_of(path) if path else None
        self._readiness = Readiness(bound.fileno())
        self._last = 2 * _SOCKET_BYTES  # how much is read after `end`: what may wait

    async def receive(self, limit: int) -> list[tuple[bytes, str]]:
        """Return the datagrams that are there; see `DatagramInput`."""
        await asyncio.sleep(0)  # a flood must not keep other tasks from running
        while True:
            if self._last > 0 and (found := self._receive_waiting(limit)):
                self._last -= _BATCH_BYTES if self._readiness.ended else 0
                return found
            if self._readiness.ended:
                self.close()  # at once: the kernel would take what comes, and nothing reads it
                return []
            await self._readiness.wait()

    def _receive_waiting(self, limit: int) -> list[tuple[bytes, str]]:
        found, size = list[tuple[bytes, str]](), 0
        while size < _BATCH_BYTES:
            try:
                data, address = self._socket.recvfrom(limit)
            except BlockingIOError:
                break
            except OSError:
                break  # what waits is read once the kernel tells of it again
            found.append((data, "" if self._path else peer_name(address)))
            size += len(data) + 64
        return found

    def dropped(self) -> int:
        """Return how many datagrams found the kernel's buffer full; see `DatagramInput`."""
        try:
            figures = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            return int(_MEMINFO.unpack(figures)[_DROPS])
        except (OSError, struct.error):
            return 0

    def end(self) -> None:
        """Let `receive` return what waits, then close it."""
        if self._path:
            # senders are refused from now on; UDP has no such thing
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RD)
        self._readiness.end()

    def close(self) -> None:
        """Close it, and remove the name of a Unix socket."""
        if self._socket.fileno() >= 0:
            self._socket.close()
            _unlink_own(self._path, self._identity)


class _UnixListener:
    """A bound Unix socket that accepts connections."""

    def __init__(self, listener: SystemListener, path: str) -> None:
        self._listener = listener
        self._path = path
        self._identity = _identity_of(path)

    async def close(self) -> None:
        """Accept no more, and remove the socket's name."""
        await self._listener.close()
        _unlink_own(self._path, self._identity)


class SystemProgram:
    """A child process whose output is read."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stderr is not None
        self._said = asyncio.ensure_future(_last_words(process.stderr))
        self._at_end = False  # whether its output has ended

    async def read(self) -> bytes:
        """Return what it has written; see `RunningProgram`."""
        assert self._process.stdout is not None
        data = await self._process.stdout.read(_STREAM_BYTES)
        self._at_end = not data
        return data

    async def end(self) -> str:
        """End it; return the last of what it said."""
        if self._at_end:
            # it is about to end by itself, with a status of its own
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self._process.wait()
        if self._process.returncode is None:
            # asyncio's own `kill` would take the status of a program that has just ended away from
            # the thread that waits for it
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        status = await self._process.wait()
        said = await self._said
        return said or (f"it ended with {status}" if status else "")


async def _last_words(stream: asyncio.StreamReader) -> str:
    """Return the end of what is written to *stream*."""
    said = b""
    while data := await stream.read(4 * KIB):
        said = (said + data)[-KIB:]
    return said.decode(errors="replace").strip()


class SystemInputs:
    """Implements `LocalInputs`."""

    def open_stdin(self) -> ByteInput:
        """Return descriptor 0. Raises `ConfigError` where there is none to read."""
        try:
            # Python has none where it was closed, and the descriptor is another file's by now
            if sys.stdin is None:
                raise OSError(errno.EBADF, "it is closed")
            if fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                raise OSError(errno.EBADF, "it is open for writing only")
            return DescriptorInput(0, has_end=True)
        except OSError as error:
            _refuse("", "", error, "start the agent behind a pipe, as in `app | logdrive …`")

    def open_pipe(self, path: str, mode: int) -> ByteInput:
        """Return the named pipe *path*. Raises `ConfigError`."""
        try:
            with contextlib.suppress(FileExistsError):
                os.mkfifo(path)
                os.chmod(path, mode)  # whatever the umask is
            if not stat.S_ISFIFO(os.stat(path).st_mode):
                raise OSError(errno.EINVAL, "it is no named pipe")
            # open for writing, too: the pipe then never ends, whoever closes it
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            _refuse(
                "path",
                path,
                error,
                "name a pipe, or a path in a directory, that the agent's user may read and write",
            )
        return DescriptorInput(descriptor, has_end=False)

    def bind_udp(self, host: str, port: int) -> DatagramInput:
        """Return a bound UDP socket. Raises `ConfigError`."""
        text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            bound = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            _bind(bound, address)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
        except (OSError, OverflowError) as error:
            _refuse(
                "listen",
                text,
                error,
                "write host:port of this host, which nothing uses; "
                "ports below 1024 need CAP_NET_BIND_SERVICE",
            )
        return SocketInput(bound)

    def bind_unix(self, path: str, mode: int) -> DatagramInput:
        """Return a Unix socket for datagrams. Raises `ConfigError`."""
        bound = _bind_unix(path, mode, socket.SOCK_DGRAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
        return SocketInput(bound, path)

    async def listen_unix(
        self, path: str, mode: int, accept: Accept, limits: ListenerLimits
    ) -> LocalListener:
        """Listen at a Unix socket. Raises `ConfigError`."""
        admission = Admission(limits.connections, limits.reads_bytes)

        async def welcome(accepted: socket.socket, peer: str) -> SystemStream:
            wire = PlainWire(accepted, peer or path, admission.read_bytes)
            return SystemStream(accepted, wire, Peer(peer))

        bound = _bind_unix(path, mode, socket.SOCK_STREAM)
        bound.listen(_BACKLOG)
        return _UnixListener(SystemListener(bound, welcome, accept, admission), path)

    async def start_program(self, command: Sequence[str]) -> RunningProgram:
        """Start *command*. Raises `ConfigError` where there is no such program."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_STREAM_BYTES,
                start_new_session=True,  # signals of a terminal are not meant for it
            )
        except OSError as error:
            _refuse("journalctl", command[0], error, "name the program that reads the journal")
        return SystemProgram(process)

    def identity_of(self, path: str) -> PathIdentity | None:
        """Return what stands under *path*; see `LocalInputs`."""
        return _identity_of(path)

    def free_bytes(self, directory: str) -> int:
        """Return how much room the disk of *directory* has for this process."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize

    def make_executor(self) -> Executor:
        """Return one thread."""
        return ThreadExecutor("spool")


def _identity_of(path: str) -> PathIdentity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _unlink_own(path: str, identity: PathIdentity | None) -> None:
    """Remove the name of a Unix socket, unless it is another's by now."""
    if identity is not None and _identity_of(path) == identity:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _bind_unix(path: str, mode: int, kind: int) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        _remove_stale(path, kind)
        _bind(bound, path)
        os.chmod(path, mode)
    except OSError as error:
        bound.close()
        _refuse(
            "path",
            path,
            error,
            "name a path, in a directory that the agent's user may write "
            "to, which no program listens at",
        )
    return bound


def _remove_stale(path: str, kind: int) -> None:
    """Remove a socket that no program listens at: one that an earlier run left behind."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)


def _bind(bound: socket.socket, address: Any) -> None:
    try:
        bound.bind(address)
    except BaseException:
        bound.close()
        raise


def _refuse(key: str, value: str, error: Exception, remedy: str) -> NoReturn:
    reason = os_error_text(error) if isinstance(error, OSError) else str(error)
    may_pass = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    kind = UnavailableError if may_pass else ConfigError
    raise kind("listen", [Mistake(key, value, f"it can't be used ({reason}): {remedy}")]) from error
