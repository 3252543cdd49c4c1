"""The spool: a store of this agent alone, whose segments are the bytes of its spooled sources."""

import asyncio
import contextlib
import os
from collections.abc import Iterable, Iterator
from random import Random
from typing import Final

from agent.config.spooled import SpooledTable, StdinTable, SyslogTable
from agent.inputs.local.ports import LocalInputs
from agent.inputs.spool.segment import SpoolSegment, make_segment
from agent.inputs.spool.stream import SpooledStream
from logdrive.errors import StorageError
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.model.units import KIB, MIB
from logdrive.store.engine import Store
from logdrive.store.errors import StoreDamagedError, name_store_in_errors
from logdrive.store.limits import StoreLimits
from logdrive.store.running import Failure, open_store

LIMITS: Final = StoreLimits(
    entry=4 * MIB,
    group=1 * MIB,
    log_file=16 * MIB,
    pending=16 * MIB,
    open_files=8,
    read_ahead=64 * KIB,
    kept=1 * MIB,
    copy=1 * MIB,
    direct=False,
    pages=64,
    numbers=1024,
)
"""Limits by which the store takes little memory, and gives back its files early."""
_HEADROOM_BYTES: Final = 4 * MIB
"""Room on the disk that input does not get: the store needs some to free what was acknowledged, and
without it a disk that a spool has filled would stay full for ever.
"""
_NS_PER_MS: Final = 1_000_000

_LINES: Final = StdinTable()
_MESSAGES: Final = SyslogTable(listen="0.0.0.0", protocol="udp")  # noqa: S104 - nothing is bound
"""Stand for the table of an input that no table names any more."""


class Spool:
    """The store, open between `open` and `close`."""

    def __init__(
        self,
        path: str,
        local: LocalInputs,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
    ) -> None:
        self.path = path
        self._local = local
        self._disk = disk
        self._clock = clock
        self._random = random
        self._open = contextlib.AsyncExitStack()  # what `close` closes
        self._store: Store | None = None
        self._failure: Failure | None = None

    async def open(self) -> None:
        """Open the store, or create it.

        Raises `UnavailableError`, or `StorageError` for one that was changed so that it can't be
        opened.
        """
        executor = self._local.make_executor()
        self._open.callback(executor.close)
        self._failure = Failure()
        store = open_store(
            self.path,
            self._failure,
            disk=self._disk,
            executor=executor,
            clock=self._clock,
            limits=LIMITS,
            random=self._random,
        )
        state_dir = os.path.dirname(self.path)
        async with name_store_in_errors("agent", "agent.state_dir", state_dir):
            try:
                self._store = await self._open.enter_async_context(store)
            except StoreDamagedError as error:
                raise StorageError(
                    f"{error}: to go on without what it holds, move {self.path} away; what was not "
                    "sent of it is a gap then"
                ) from error

    def has_room(self, size: int) -> bool:
        """Return whether the disk has room for *size* bytes more."""
        return self._local.free_bytes(self.path) >= size + _HEADROOM_BYTES

    async def wait_for_failure(self) -> None:
        """Raise the `StorageError` that ended the store, once there is one."""
        if self._failure is None:
            await asyncio.Event().wait()
            return
        await self._failure.happened.wait()
        assert self._failure.error is not None
        raise self._failure.error

    async def close(self) -> None:
        """Make pending changes durable and close the store; does nothing if it is not open.

        Raises nothing: a failure was raised by `wait_for_failure`.
        """
        with contextlib.suppress(StorageError):
            await self._open.aclose()

    def streams(self, tables: Iterable[SpooledTable]) -> Iterator[SpooledStream]:
        """Yield all streams, the newest first; each has its table, or one that stands for it."""
        assert self._store is not None
        named = {table.name: table for table in tables}
        for name in reversed(self._store.segments()):
            segment = SpoolSegment(self._store, name)
            standing = _MESSAGES if is_of_messages(segment.name) else _LINES
            yield _stream(segment, named.get(segment.name, standing))

    async def make_stream(self, table: SpooledTable) -> SpooledStream:
        """Make a stream of *table*, durably. Raises `TransientError` on a full disk."""
        assert self._store is not None
        # no two of a name have the same: the random part is for clocks that were set back
        birth_ns = self._clock.now_ms() * _NS_PER_MS + self._random.randrange(_NS_PER_MS)
        return _stream(await make_segment(self._store, table.name, birth_ns), table)


def is_of_messages(name: str) -> bool:
    """Return whether the input *name* spools messages, not lines."""
    return name.startswith(("syslog:", "datagram:"))


def _stream(segment: SpoolSegment, table: SpooledTable) -> SpooledStream:
    return SpooledStream(segment, table, messages=is_of_messages(segment.name))
