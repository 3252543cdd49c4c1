"""Writes the index beside the log, so that a start need not read the log up to there."""

import os

import structlog

from logdrive.disk import Disk, write_atomically
from logdrive.executor import Executor
from logdrive.store.recovery import INDEX_NAME, Recovered
from logdrive.store.snapshot import Snapshot, encode_snapshot


class Checkpoint:
    """The index file of a store in *directory*: a cache, so that failing to write it fails nothing."""

    def __init__(self, found: Recovered, directory: str, *, disk: Disk, executor: Executor) -> None:
        self._log = found.log
        self._index = found.index
        self._covers = found.indexed
        self._directory = directory
        self._disk = disk
        self._executor = executor

    async def write(self) -> None:
        """Write it, unless it covers the whole log; the index must have all that the log has."""
        tip = self._log.tip
        if tip.position == self._covers:
            return
        data = encode_snapshot(Snapshot(self._log.store_id, tip, self._index))
        try:
            await self._executor.run(self._replace, data)
            self._covers = tip.position
        except OSError as error:
            structlog.get_logger().warning("index checkpoint not written", store=self._directory, reason=error.strerror)

    def _replace(self, data: bytes) -> None:
        path = os.path.join(self._directory, INDEX_NAME)
        write_atomically(self._disk, path, data, before_rename="store.index.before_rename")
