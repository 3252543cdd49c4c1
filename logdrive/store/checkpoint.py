"""Index checkpoints: the index on disk, so that a start reads only the log's end."""

import contextlib

import structlog

from logdrive.errors import StorageError, os_error_text
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.store.index.index_file import INDEX_NAME, OLDER_NAME, load_index, replace_index
from logdrive.store.index.snapshot import Snapshot, encode_snapshot
from logdrive.store.index.spill import Spill, apply_spill, gather_spill, write_spill
from logdrive.store.limits import StoreLimits
from logdrive.store.log.log import Tip
from logdrive.store.recovery import Recovered


class IndexCheckpoint:
    """The index files of the store in *directory*; a failure to write them has no other effect.

    *needed_from* is the log position from which a start with the older index reads: log files that
    end at or before it are not needed for it. It is -1 if unknown; `find_needed_from` may find it.
    """

    def __init__(
        self,
        recovered: Recovered,
        directory: str,
        *,
        disk: Disk,
        executor: Executor,
        limits: StoreLimits,
    ) -> None:
        self.needed_from = -1
        self._log = recovered.log
        self._index = recovered.index
        # the tip that the index on disk covers, None if there is no good one
        self._written: Tip | None = recovered.indexed
        # paged files of the index on disk
        self._names = recovered.names
        self._directory = directory
        # True once `find_needed_from` has read the older index
        self._looked = False
        self._disk = disk
        self._executor = executor
        self._limits = limits

    async def find_needed_from(self) -> None:
        """Read from the older index what it needs, if it was written before this start.

        Only if the newer index is good.
        """
        if self.needed_from < 0 and self._written is not None and not self._looked:
            self._looked = True
            self.needed_from = await self._executor.run(self._last_of_older)

    def _last_of_older(self) -> int:
        try:
            older = load_index(self._disk, self._directory, OLDER_NAME, self._limits)
            missing = older.index.pages.missing(older.index.paged_files())
        except FileNotFoundError:
            return -1
        except (OSError, ValueError) as error:
            reason = os_error_text(error) if isinstance(error, OSError) else str(error)
            log = structlog.get_logger()
            log.warning(
                "older index not read: what it needs is kept", store=self._directory, reason=reason
            )
            return -1
        good = older.store_id == self._log.store_id and not missing
        return older.tip.last if good else -1

    async def write(self, *, again: bool = False) -> bool:
        """Write the index, unless the last one covers the whole log; return False if that fails.

        With *again* it is written all the same: then the older index covers as much. The index must
        include the whole log, and nothing may change it meanwhile. Rows that are on disk then are
        dropped from memory.
        """
        tip = self._log.tip
        if self._written is not None and tip.position == self._written.position and not again:
            return True

        spill = gather_spill(self._index, tip.position)
        try:
            await self._executor.run(self._write_pages, spill)
            apply_spill(self._index, spill)
            data = encode_snapshot(Snapshot(self._log.store_id, tip, self._index))
            before, self._written = self._written, None
            kept = await self._executor.run(self._replace, data, before is not None)
        except (OSError, StorageError) as error:
            reason = os_error_text(error) if isinstance(error, OSError) else str(error)
            structlog.get_logger().warning(
                "index checkpoint not written", store=self._directory, reason=reason
            )
            return False

        self._written = tip
        # files of the older index stay, too
        known, self._names = self._names, frozenset(file.name for file in self._index.paged_files())
        if kept and before is not None:
            self.needed_from = before.last
            await self._executor.run(self._sweep, known | self._names)
        return True

    def _write_pages(self, spill: Spill) -> None:
        self._index.pages.restore_copies(self._index.paged_files())
        write_spill(self._index, spill)
        # the files' names must be durable before an index refers to them
        self._disk.sync_directory(self._directory)

    def _replace(self, data: bytes, keep: bool) -> bool:
        """Write the index; return whether the previous one was kept as the older index.

        If not, the older index stays as it was, with its files.
        """
        keep = keep and self._is_sound()
        replace_index(self._disk, self._directory, data, keep=keep)
        return keep

    def _is_sound(self) -> bool:
        """Return whether the index file is readable: a damaged one must not become the older."""
        try:
            load_index(self._disk, self._directory, INDEX_NAME, self._limits)
        except (OSError, ValueError):
            return False
        return True

    def _sweep(self, known: frozenset[str]) -> None:
        with contextlib.suppress(OSError):  # files that stay are removed the next time
            self._index.pages.remove_unknown(known)
