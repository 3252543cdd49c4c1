"""Ports to what this host's programs write into: standard input, pipes, datagrams, Unix sockets.

Connections over TCP and TLS come by the `Transport`. `system.py` has the real ones.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from logdrive.host.executor import Executor
from logdrive.host.transport import Accept, ListenerLimits

PathIdentity = tuple[int, int]
"""Device and inode."""
DROPS_MODULUS: Final = 1 << 32
"""Of the kernel's counter of dropped datagrams."""


class ByteInput(Protocol):
    """Bytes that come in order, of one program or of several in turn."""

    async def read(self, limit: int) -> bytes:
        """Return what is there, at most *limit* bytes, and wait for some; b"" at the end.

        Raises `TransientError` where it can't be read.
        """
        ...

    def end(self) -> None:
        """Take nothing more, and let `read` return what waits, then b"".

        Writers get an error from then on, lest they write what nothing reads.
        """
        ...

    def close(self) -> None:
        """Close it, if it is open."""
        ...


class DatagramInput(Protocol):
    """A bound socket that datagrams come to."""

    async def receive(self, limit: int) -> list[tuple[bytes, str]]:
        """Return the datagrams that are there, each with its sender's address, "" for none.

        Waits for some. A datagram is cut after *limit* bytes. [] once `end` was called and none is
        there.
        """
        ...

    def dropped(self) -> int:
        """Return how many datagrams the kernel has dropped since `bind`, modulo `DROPS_MODULUS`.

        They found its buffer full. 0 where the kernel does not tell.
        """
        ...

    def end(self) -> None:
        """Let `receive` return what waits, then [].

        It is closed in the same step: what is sent then is refused, not kept for no reader.
        """
        ...

    def close(self) -> None:
        """Close it, if it is open."""
        ...


class LocalListener(Protocol):
    """A bound Unix socket."""

    async def close(self) -> None:
        """Accept no more connections; open ones stay."""
        ...


class RunningProgram(Protocol):
    """A program that writes what is read, such as journalctl."""

    async def read(self) -> bytes:
        """Return what it has written, some; b"" once it has ended."""
        ...

    async def end(self) -> str:
        """End it, if it has not; return what it said of its end, "" for nothing."""
        ...


class LocalInputs(Protocol):
    """Makes them. All methods raise `ConfigError` for what can't be opened or bound."""

    def open_stdin(self) -> ByteInput:
        """Return the process's standard input."""
        ...

    def open_pipe(self, path: str, mode: int) -> ByteInput:
        """Return the named pipe *path*, made with the permissions *mode* where it is missing.

        It has no end: programs may open and close it.
        """
        ...

    def bind_udp(self, host: str, port: int) -> DatagramInput:
        """Return a UDP socket bound to an address of this host."""
        ...

    def bind_unix(self, path: str, mode: int) -> DatagramInput:
        """Return a Unix socket for datagrams, with the permissions *mode*."""
        ...

    async def listen_unix(
        self, path: str, mode: int, accept: Accept, limits: ListenerLimits
    ) -> LocalListener:
        """Listen at a Unix socket, and run *accept* for each connection, as `Transport` does."""
        ...

    def identity_of(self, path: str) -> PathIdentity | None:
        """Return what stands under *path*, None for nothing: another one has another identity."""
        ...

    def free_bytes(self, directory: str) -> int:
        """Return how much room the disk of *directory* has for this process."""
        ...

    async def start_program(self, command: Sequence[str]) -> RunningProgram:
        """Start *command*, a program with its arguments."""
        ...

    def make_executor(self) -> Executor:
        """Return an executor with one thread, for the spool's store; the caller closes it."""
        ...
