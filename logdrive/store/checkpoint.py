"""Writes the index beside the log, so that a start need not read the log up to there."""

import structlog

from logdrive.disk import Disk
from logdrive.executor import Executor
from logdrive.store.index_file import OLDER_NAME, load, replace
from logdrive.store.log import Tip
from logdrive.store.recovery import Recovered
from logdrive.store.snapshot import Snapshot, encode_snapshot


class Checkpoint:
    """The index files of a store in *directory*; failing to write them fails nothing.

    *needed_from* is where the log must be kept from, so that a start can go on from the older one: no file that ends up to there
    is needed for it. -1 where that is not known; `look_up` may know.
    """

    def __init__(self, found: Recovered, directory: str, *, disk: Disk, executor: Executor) -> None:
        self.needed_from = -1
        self._log = found.log
        self._index = found.index
        self._written: Tip | None = found.indexed
        self._directory = directory
        self._looked = False
        self._disk = disk
        self._executor = executor

    async def look_up(self) -> None:
        """Find out what the older one needs, if it was written before this start and the newer one is good."""
        if self.needed_from < 0 and self._written is not None and not self._looked:
            self._looked = True
            self.needed_from = await self._executor.run(self._last_of_older)

    def _last_of_older(self) -> int:
        try:
            older = load(self._disk, self._directory, OLDER_NAME)
        except (OSError, ValueError):
            return -1
        return older.tip.last if older.store_id == self._log.store_id else -1

    async def write(self) -> bool:
        """Write it, unless it covers the whole log; the index must have all that the log has. False where it can't be written."""
        tip = self._log.tip
        if self._written is not None and tip.position == self._written.position:
            return True
        data = encode_snapshot(Snapshot(self._log.store_id, tip, self._index))
        before, self._written = self._written, None
        try:
            await self._executor.run(self._replace, data, before is not None)
        except OSError as error:
            structlog.get_logger().warning("index checkpoint not written", store=self._directory, reason=error.strerror)
            return False
        self._written = tip
        if before is not None:
            self.needed_from = before.last
        return True

    def _replace(self, data: bytes, keep: bool) -> None:
        replace(self._disk, self._directory, data, keep=keep)
