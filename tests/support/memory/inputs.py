"""Standard input, pipes, datagrams and Unix sockets in memory: what programs of a test's host write
into. What an agent has not read stays when it is killed, as it does in the kernel.
"""

import asyncio
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from logdrive.errors import ConfigError, Mistake
from logdrive.host.executor import Executor
from logdrive.host.transport import Accept, Listener, ListenerLimits
from tests.support.inline import InlineExecutor
from tests.support.memory.transport import MemoryHost

T = TypeVar("T")


class MemoryBytes:
    """A pipe that a test writes into."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._wake = asyncio.Event()
        self._has_ended = False
        self._stopped = False
        self.taken = bytearray()
        """All that was read of it."""
        self.last = b""
        """What was read last."""

    def write(self, data: bytes) -> None:
        self._waiting += data
        self._wake.set()

    def end_writing(self) -> None:
        """Let readers come to the end."""
        self._has_ended = True
        self._wake.set()

    @property
    def waiting(self) -> int:
        """How many bytes are not read."""
        return len(self._waiting)

    def opened(self) -> "MemoryBytes":
        self._stopped = False
        return self

    async def read(self, limit: int) -> bytes:
        while not self._waiting and not self._has_ended and not self._stopped:
            self._wake.clear()
            await self._wake.wait()
        data = bytes(self._waiting[:limit])
        del self._waiting[:limit]
        self.taken += data
        self.last = data or self.last
        return data

    def end(self) -> None:
        self._stopped = True
        self._wake.set()

    def close(self) -> None: ...


class MemoryDatagrams:
    """A socket that a test sends datagrams to."""

    def __init__(self) -> None:
        self._waiting: list[tuple[bytes, str]] = []
        self._wake = asyncio.Event()
        self._stopped = False
        self.drops = 0
        """How many datagrams the kernel has dropped."""

    def send(self, data: bytes, sender: str = "") -> None:
        self._waiting.append((data, sender))
        self._wake.set()

    def opened(self) -> "MemoryDatagrams":
        self._stopped = False
        return self

    async def receive(self, limit: int) -> list[tuple[bytes, str]]:
        while not self._waiting and not self._stopped:
            self._wake.clear()
            await self._wake.wait()
        waiting, self._waiting = self._waiting, []
        return [(data[:limit], sender) for data, sender in waiting]

    def dropped(self) -> int:
        return self.drops

    def end(self) -> None:
        self._stopped = True
        self._wake.set()

    def close(self) -> None: ...


class MemoryJournal:
    """A journal that a test writes into, and vacuums; it starts "journalctl" for its readers."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, bytes]] = []  # by number, ascending
        self._written = asyncio.Event()
        self.starts: list[list[str]] = []
        """The commands that were started."""
        self._dies = 0

    def add(self, boot: str, number: int, message: bytes, **fields: bytes) -> None:
        """Add an entry; *boot* is one character of its id."""
        lines = [
            b"__CURSOR=s=%b;i=%x;b=%b;m=1;t=1;x=1" % (b"f" * 32, number, boot.encode() * 32),
            b"__REALTIME_TIMESTAMP=%d" % (1_700_000_000_000_000 + number * 1000),
        ]
        lines += [b"%b=%b" % (name.encode(), value) for name, value in fields.items()]
        size = len(message).to_bytes(8, "little")
        plain = b"\n" not in message
        lines.append(b"MESSAGE=" + message if plain else b"MESSAGE\n" + size + message)
        self._entries.append((number, b"\n".join(lines) + b"\n\n"))
        self._written.set()

    def vacuum(self, before: int) -> None:
        """Remove the entries with a number below *before*."""
        self._entries = [entry for entry in self._entries if entry[0] >= before]

    def kill_readers(self) -> None:
        """Let every "journalctl" end that runs."""
        self._dies += 1
        self._written.set()

    def start(self, command: Sequence[str]) -> "MemoryJournalctl":
        self.starts.append(list(command))
        (after,) = [part for part in command if part.startswith("--after-cursor=")] or [""]
        number = int(after.partition(";i=")[2].partition(";")[0] or "0", 16)
        return MemoryJournalctl(self, number, follows="--follow" in command)

    async def next_entries(self, after: int, life: int) -> tuple[int, bytes]:
        """Return the number of the last entry after *after*, and some bytes of them."""
        while self._dies == life:
            at = bisect_right(self._entries, after, key=lambda entry: entry[0])
            if found := self._entries[at : at + 100]:
                return found[-1][0], b"".join(entry for _, entry in found)
            self._written.clear()
            await self._written.wait()
        return after, b""

    def has_more(self, after: int) -> bool:
        """Return whether there are entries after the number *after*."""
        return bool(self._entries) and self._entries[-1][0] > after

    @property
    def life(self) -> int:
        """How often its readers were killed."""
        return self._dies


class MemoryJournalctl:
    """A program that writes the entries of a `MemoryJournal`."""

    def __init__(self, journal: MemoryJournal, after: int, *, follows: bool) -> None:
        self._journal, self._after, self._life = journal, after, journal.life
        self._follows = follows

    async def read(self) -> bytes:
        if not self._follows and not self._journal.has_more(self._after):
            return b""
        self._after, data = await self._journal.next_entries(self._after, self._life)
        return data

    async def end(self) -> str:
        return "killed" if self._life != self._journal.life else ""


class MemoryInputs:
    """Implements `LocalInputs`; a path or an address that no test made can't be opened."""

    def __init__(self, host: MemoryHost | None = None) -> None:
        """Take connections to Unix sockets as those to ports of *host*, by the path's length."""
        self.stdin = MemoryBytes()
        self.pipes: dict[str, MemoryBytes] = {}
        self.datagrams: dict[str, MemoryDatagrams] = {}
        self.journal = MemoryJournal()
        self.free: Callable[[], int] = lambda: sys.maxsize
        """How much room the disk has (bytes)."""
        self._host = host

    def new_stdin(self) -> MemoryBytes:
        """Return the standard input of the next process."""
        self.stdin = MemoryBytes()
        return self.stdin

    def open_stdin(self) -> MemoryBytes:
        return self.stdin.opened()

    def open_pipe(self, path: str, mode: int) -> MemoryBytes:
        return self._found(path, self.pipes).opened()

    def bind_udp(self, host: str, port: int) -> MemoryDatagrams:
        return self._found(f"{host}:{port}", self.datagrams).opened()

    def bind_unix(self, path: str, mode: int) -> MemoryDatagrams:
        return self._found(path, self.datagrams).opened()

    async def listen_unix(
        self, path: str, mode: int, accept: Accept, limits: ListenerLimits
    ) -> Listener:
        assert self._host is not None
        return await self._host.listen(path, len(path), None, accept)

    def identity_of(self, path: str) -> tuple[int, int]:
        return 1, 1

    def free_bytes(self, directory: str) -> int:
        return self.free()

    async def start_program(self, command: Sequence[str]) -> MemoryJournalctl:
        return self.journal.start(command)

    def make_executor(self) -> Executor:
        return InlineExecutor()

    def _found(self, path: str, made: dict[str, T]) -> T:
        if path not in made:
            raise ConfigError("listen", [Mistake("path", path, "there is no such input")])
        return made[path]
