"""Gives back to the disk what nobody can read any more: whole log files.

A file in which nothing of any segment lies is removed once a start needs it no more
(`IndexCheckpoint.needed_from`). One of which less than a quarter is left is emptied first: what is
left is appended to the log once more, as COPY entries, so that one small segment does not hold
gigabytes. Each byte copied so frees three others, and all files together are less than four times
what lives.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from logdrive.errors import LogdriveError
from logdrive.host import faults
from logdrive.host.disk import Disk, words_of
from logdrive.host.executor import Executor
from logdrive.store.checkpoint import IndexCheckpoint
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.index import Extent, Index, SegmentIndex
from logdrive.store.limits import StoreLimits
from logdrive.store.reader import LogReader

_SPARSE: Final = 4
"""A file is emptied by copying once less than one part in so many of it lives."""
_REST_GROUPS: Final = 100
"""So many groups are committed before it is tried again where the disk refused something."""

_SEARCH: Final = 10_000
"""Segments looked at in one step, some milliseconds of the loop's time."""

CopyExtent = Callable[[SegmentIndex, Extent, int, bytes], "asyncio.Future[Any]"]


@dataclass(slots=True)
class _Victim:
    """A file being emptied: *segments* are yet to be searched for what they have in it, the first
    one from *offset* on.
    """

    base: int
    segments: deque[int]
    offset: int = 0


class Reclaimer:
    """Works in steps between two groups, each of at most one file removed and some megabytes
    copied.

    *copy* submits a copy; *forget* is told of each file that is removed, just before.
    """

    def __init__(
        self,
        index: Index,
        checkpoint: IndexCheckpoint,
        reader: LogReader,
        *,
        disk: Disk,
        executor: Executor,
        limits: StoreLimits,
        copy: CopyExtent,
        forget: Callable[[int], None],
    ) -> None:
        self._index, self._files = index, index.files
        self._checkpoint = checkpoint
        self._reader = reader
        self._disk, self._executor, self._limits = disk, executor, limits
        self._copy, self._forget = copy, forget
        self._victim: _Victim | None = None
        self._copies: list[asyncio.Future[Any]] = []
        self._emptied = -1
        self._spoilt: set[int] = set()
        self._rest = 0
        self._log = structlog.get_logger("logdrive.store").bind(store=index.files.directory)

    @property
    def due(self) -> bool:
        """Whether `step` may have something to do."""
        return bool(self._files.changed or self._victim is not None or self._copies or self._rest)

    async def step(self) -> bool:
        """Do a little, between two groups.

        True where more can be done at once, without waiting for the next group.
        """
        if self._rest:
            self._rest -= 1
            return False
        if not all(copy.done() for copy in self._copies):
            return False
        if any(copy.exception() is not None for copy in self._copies):
            self._give_up()
            return False
        self._copies.clear()
        if not self._files.changed and self._victim is None:
            return False
        empty = [base for base in self._files.ends if not self._files.live[base]]
        if empty:
            return await self._remove_one(empty)
        if self._victim is None:
            self._files.changed = False
            self._victim = self._chosen()
        return self._victim is not None and await self._copy_some(self._victim)

    def _give_up(self) -> None:
        """Let it be for a while: the disk takes nothing, or too much is waiting for it."""
        self._copies.clear()
        self._victim = None
        self._files.changed = True
        self._rest = _REST_GROUPS

    # Removing ------------------------------------------------------------------------------------

    async def _remove_one(self, empty: list[int]) -> bool:
        """Remove one of the files in which nothing lives; write the index where one of them is
        waiting for that.
        """
        base = min(empty)
        end = self._files.ends[base]
        if self._victim is not None and self._victim.base == base:
            self._victim = None  # the rest of it went without being copied
        if self._emptied == base:
            self._emptied = -1
            faults.reach("store.free.after_copy")
        await self._checkpoint.look_up()
        if end > self._checkpoint.needed_from and not await self._checkpoint.write():
            self._give_up()
            return False
        if end > self._checkpoint.needed_from:
            return False  # the next group lets the index be written once more
        self._forget(base)
        self._reader.forget(base)
        try:
            await self._executor.run(self._remove, self._files.path(base))
        except OSError as error:
            self._log.warning("a log file can't be removed", reason=words_of(error))
            self._give_up()
            return False
        self._files.remove(base)
        self._log.info("log file freed", file=self._files.path(base), bytes=end - base)
        return True

    def _remove(self, path: str) -> None:
        faults.reach("store.free.before_remove")
        with contextlib.suppress(FileNotFoundError):  # an attempt before could not sync
            self._disk.remove(path)
        self._disk.sync_directory(self._files.directory)
        faults.reach("store.free.after_remove")

    # Copying -------------------------------------------------------------------------------------

    def _chosen(self) -> _Victim | None:
        """Return the file with the least left, if that is little, and if what is left is known on
        disk: to be found without a search.
        """
        sparse = [
            (self._files.live[base], base)
            for base, end in self._files.ends.items()
            if self._files.live[base] * _SPARSE < end - base
            and base < self._index.paged_to
            and base not in self._spoilt
        ]
        return _Victim(min(sparse)[1], deque(self._index.by_number)) if sparse else None

    async def _copy_some(self, victim: _Victim) -> bool:
        """Submit the next few copies; whether the file is empty then shows once they are
        durable.
        """
        try:
            extents = self._next_extents(victim)
            data = await self._executor.run(self._read, [extent for _, extent in extents])
            for (segment, extent), (time_ms, piece) in zip(extents, data, strict=True):
                self._copies.append(self._copy(segment, extent, time_ms, piece))
        except StoreDamagedError as error:
            self._spoilt.add(victim.base)
            self._victim = None
            self._log.error("a log file stays, though little of it is needed", reason=str(error))
        except (LogdriveError, OSError) as error:
            self._log.warning(
                "a log file stays for now, though little of it is needed", reason=str(error)
            )
            self._give_up()
        else:
            if not victim.segments:
                self._victim, self._emptied = None, victim.base
                # to look again: what a merge carried past the search is found by another one
                self._files.changed = True
        return not self._copies and self._victim is not None

    def _next_extents(self, victim: _Victim) -> list[tuple[SegmentIndex, Extent]]:
        """Return what to copy next: up to the limit, one extent at least unless the search for it
        takes long.
        """
        extents: list[tuple[SegmentIndex, Extent]] = []
        size, looked = 0, 0
        while size < self._limits.copy and victim.segments and looked < _SEARCH:
            segment = self._index.by_number.get(victim.segments[0])
            extent = segment.next_in(victim.base, victim.offset) if segment is not None else None
            if segment is None or extent is None:
                victim.segments.popleft()
                victim.offset = 0
                looked += 1
                continue
            extents.append((segment, extent))
            victim.offset = extent.offset + extent.length
            size += extent.length
        return extents

    def _read(self, extents: list[Extent]) -> list[tuple[int, bytes]]:
        return [self._reader.entry(extent) for extent in extents]
