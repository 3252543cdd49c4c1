"""Writes the index beside the log, so that a start need not read the log up to there."""

import contextlib

import structlog

from logdrive.errors import StorageError
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.store.index.index_file import INDEX_NAME, OLDER_NAME, load, replace
from logdrive.store.index.snapshot import Snapshot, encode_snapshot
from logdrive.store.index.spill import Paging, gathered, settle, write
from logdrive.store.limits import StoreLimits
from logdrive.store.log.log import Tip
from logdrive.store.recovery import Recovered


class IndexCheckpoint:
    """The index files of a store in *directory*; failing to write them fails nothing.

    *needed_from* is where the log must be kept from, so that a start can go on from the older one:
    no file that ends up to there is needed for it. -1 where that is not known; `look_up` may know.
    """

    def __init__(
        self,
        found: Recovered,
        directory: str,
        *,
        disk: Disk,
        executor: Executor,
        limits: StoreLimits,
    ) -> None:
        self.needed_from = -1
        self._log = found.log
        self._index = found.index
        self._written: Tip | None = found.indexed
        self._names = found.names
        self._directory = directory
        self._looked = False
        self._disk = disk
        self._executor, self._limits = executor, limits

    async def look_up(self) -> None:
        """Find out what the older one needs, if it was written before this start and the newer one
        is good.
        """
        if self.needed_from < 0 and self._written is not None and not self._looked:
            self._looked = True
            self.needed_from = await self._executor.run(self._last_of_older)

    def _last_of_older(self) -> int:
        try:
            older = load(self._disk, self._directory, OLDER_NAME, self._limits)
            missing = older.index.pages.missing(older.index.paged_files())
        except (OSError, ValueError):
            return -1
        good = older.store_id == self._log.store_id and not missing
        return older.tip.last if good else -1

    async def write(self) -> bool:
        """Write it, unless it covers the whole log; the index must have all that the log has.

        False where it can't be written.

        Nothing may change the index meanwhile. What it then has on disk it lets go of in memory.
        """
        tip = self._log.tip
        if self._written is not None and tip.position == self._written.position:
            return True
        paging = gathered(self._index, tip.position)
        try:
            await self._executor.run(self._write_pages, paging)
            settle(self._index, paging)
            data = encode_snapshot(Snapshot(self._log.store_id, tip, self._index))
            before, self._written = self._written, None
            kept = await self._executor.run(self._replace, data, before is not None)
        except (OSError, StorageError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            structlog.get_logger().warning(
                "index checkpoint not written", store=self._directory, reason=reason
            )
            return False
        self._written = tip
        known, self._names = self._names, frozenset(file.name for file in self._index.paged_files())
        if kept and before is not None:
            self.needed_from = before.last
            await self._executor.run(self._sweep, known | self._names)
        return True

    def _write_pages(self, paging: Paging) -> None:
        self._index.pages.mend(self._index.paged_files())
        write(self._index, paging)
        # no index may outlive a crash that one of its files does not
        self._disk.sync_directory(self._directory)

    def _replace(self, data: bytes, keep: bool) -> bool:
        """Write the index, and tell if the one there became the older one; where it did not, that
        stays as it was, with its files.
        """
        keep = keep and self._is_sound()
        replace(self._disk, self._directory, data, keep=keep)
        return keep

    def _is_sound(self) -> bool:
        """Read the index that is to become the older one: a damaged one must not take the place of
        a good one.
        """
        try:
            load(self._disk, self._directory, INDEX_NAME, self._limits)
        except (OSError, ValueError):
            return False
        return True

    def _sweep(self, known: frozenset[str]) -> None:
        with contextlib.suppress(OSError):  # what stays is found the next time
            self._index.pages.sweep(known)
