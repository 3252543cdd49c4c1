"""Reclaims log files: removes empty ones, and empties sparse ones by copying.

A file without data of any segment is removed once a start no longer needs it
(`IndexCheckpoint.needed_from`). A file with less than a quarter left is emptied first: the rest is
appended to the log's end as COPY entries, so that one small segment does not hold gigabytes. Each
byte copied so frees three others, and all files together are less than four times the live data.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from logdrive.errors import LogdriveError, file_error_text
from logdrive.host import faults
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.store.checkpoint import IndexCheckpoint
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.index import Extent, Index, SegmentIndex
from logdrive.store.limits import StoreLimits
from logdrive.store.reader import LogReader

_SPARSE: Final = 4
"""A file is emptied by copying if less than 1/N of it is live."""
_REST_GROUPS: Final = 100
"""Groups to commit before the next attempt after a failure."""

_SEARCH: Final = 10_000
"""Segments searched in one step: some milliseconds on the event loop."""

CopyExtent = Callable[[SegmentIndex, Extent, int, bytes], "asyncio.Future[Any]"]


@dataclass(slots=True)
class _Victim:
    """A file being emptied.

    *segments* are still to be searched for data in it, the first one from *offset* on.
    """

    base: int
    segments: deque[int]
    offset: int = 0


class Reclaimer:
    """Reclaims files in steps between two groups: each removes one file, or copies some megabytes.

    *submit_copy* submits a COPY entry. *before_remove* is called with the base of each file just
    before it is removed.
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
        submit_copy: CopyExtent,
        before_remove: Callable[[int], None],
    ) -> None:
        self._index = index
        self._files = index.files
        self._checkpoint = checkpoint
        self._reader = reader
        self._disk = disk
        self._executor = executor
        self._limits = limits
        self._submit_copy = submit_copy
        self._before_remove = before_remove
        # the file being emptied
        self._victim: _Victim | None = None
        # copies that are not durable yet
        self._copies: list[asyncio.Future[Any]] = []
        # base of the file that was emptied last, -1 for none
        self._emptied = -1
        # bases of files that can't be emptied, because data in them is damaged
        self._spoilt: set[int] = set()
        # groups left to wait after a failure
        self._rest = 0
        self._log = structlog.get_logger("logdrive.store").bind(store=index.files.directory)

    @property
    def due(self) -> bool:
        """True if `reclaim_step` may have something to do."""
        return bool(self._files.changed or self._victim is not None or self._copies or self._rest)

    async def reclaim_step(self) -> bool:
        """Do one step between two groups; True if the next can follow without a group."""
        if self._rest:
            self._rest -= 1
            return False
        if not all(copy.done() for copy in self._copies):
            return False  # the next group makes them durable
        if any(copy.exception() is not None for copy in self._copies):
            self._give_up()
            return False
        self._copies.clear()

        if not self._files.changed and self._victim is None:
            return False

        # removing comes first: it needs no copies
        empty = [base for base in self._files.ends if not self._files.live[base]]
        if empty:
            return await self._remove_one(empty)
        if self._victim is None:
            self._files.on_searched()
            self._victim = self._choose_victim()
        return self._victim is not None and await self._copy_some(self._victim)

    def _give_up(self) -> None:
        """Pause: the disk refuses writes, or too much is pending."""
        self._copies.clear()
        self._victim = None
        self._files.search_again()
        self._rest = _REST_GROUPS

    # Removing ------------------------------------------------------------------------------------

    async def _remove_one(self, empty: list[int]) -> bool:
        """Remove one empty file; write the index first if a start would still need the file."""
        base = min(empty)
        end = self._files.ends[base]
        if self._victim is not None and self._victim.base == base:
            self._victim = None  # its remaining data was deleted before it was copied
        if self._emptied == base:
            self._emptied = -1
            faults.reach("store.free.after_copy")

        # a start from the older index reads the log from `needed_from` on: it needs the file
        await self._checkpoint.find_needed_from()
        # twice at most: nothing more may come that would make the next index another
        for again in (False, True):
            needed = end > self._checkpoint.needed_from
            if needed and not await self._checkpoint.write(again=again):
                self._give_up()
                return False
        if end > self._checkpoint.needed_from:
            return False  # the older index is kept, as the newer one can't be read

        # an open file would keep its disk space
        self._before_remove(base)
        self._reader.close_file(base)
        try:
            await self._executor.run(self._remove, self._files.path(base))
        except OSError as error:
            self._log.warning("a log file can't be removed", reason=file_error_text(error))
            self._give_up()
            return False
        self._files.remove_file(base)
        self._log.info("log file freed", file=self._files.path(base), bytes=end - base)
        return True

    def _remove(self, path: str) -> None:
        faults.reach("store.free.before_remove")
        with contextlib.suppress(FileNotFoundError):  # an earlier attempt failed to sync
            self._disk.remove(path)
        self._disk.sync_directory(self._files.directory)
        faults.reach("store.free.after_remove")

    # Copying -------------------------------------------------------------------------------------

    def _choose_victim(self) -> _Victim | None:
        """Return the file with the least live data, if it is sparse.

        Only files whose extents are all on disk qualify: they are found without a search.
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
        """Submit the next few copies; the file is empty once they are durable."""
        try:
            extents = self._next_extents(victim)
            data = await self._executor.run(self._read, [extent for _, extent in extents])
            for (segment, extent), (time_ms, piece) in zip(extents, data, strict=True):
                self._copies.append(self._submit_copy(segment, extent, time_ms, piece))
        except StoreDamagedError as error:
            self._spoilt.add(victim.base)
            self._victim = None
            self._log.error("a sparse log file can't be reclaimed", reason=str(error))
        except (LogdriveError, OSError) as error:
            self._log.warning("a sparse log file can't be reclaimed now", reason=str(error))
            self._give_up()
        else:
            if not victim.segments:
                self._victim, self._emptied = None, victim.base
                # search again: a merge may have moved data past the search
                self._files.search_again()
        return not self._copies and self._victim is not None

    def _next_extents(self, victim: _Victim) -> list[tuple[SegmentIndex, Extent]]:
        """Return the extents to copy next, up to the limit.

        At least one, unless the search takes long.
        """
        extents: list[tuple[SegmentIndex, Extent]] = []
        size, looked = 0, 0
        while size < self._limits.copy and victim.segments and looked < _SEARCH:
            segment = self._index.by_number.get(victim.segments[0])
            extent = (
                segment.next_extent_in(victim.base, victim.offset) if segment is not None else None
            )
            # deleted meanwhile, or searched to its end
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
        return [self._reader.read_entry(extent) for extent in extents]
