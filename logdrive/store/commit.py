"""Group commit: all pending writes become durable with one write and one fdatasync."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.host.executor import Executor
from logdrive.store.errors import OverloadedError
from logdrive.store.limits import StoreLimits
from logdrive.store.log.log import Log
from logdrive.store.log.write_health import WriteHealth
from logdrive.store.pending import PendingWrite

TOLL = 512
"""Bytes that a pending write counts besides its data: about the memory of its objects."""


class GroupCommit:
    """The queue before the log, and the loop that empties it.

    While one group is written, the next one is filled with what is submitted, up to its limits; the
    rest waits in the queue. *on_added* is called with each write once a group has its data, and
    *on_durable* with each group once it is durable, usually while the next one is being written.
    *on_failed* is called once a write failed, with all pending writes: those after the failed group
    were checked against it. If *has_other_work* returns True, *do_other_work* is called between two
    groups, when all durable groups are processed. If it returns True, it is called again without
    waiting for a group.
    """

    def __init__(
        self,
        log: Log,
        executor: Executor,
        limits: StoreLimits,
        *,
        on_added: Callable[[PendingWrite], None],
        on_durable: Callable[[Sequence[PendingWrite]], None],
        on_failed: Callable[[Sequence[PendingWrite], LogdriveError], None],
        has_other_work: Callable[[], bool],
        do_other_work: Callable[[], Awaitable[bool]],
    ) -> None:
        # bytes of all pending writes, with a `TOLL` for each
        self.pending_bytes = 0
        self._log = log
        self._executor = executor
        self._limits = limits
        # called with each write once the open group has its data
        self._on_added = on_added
        # called with each group once it is durable
        self._on_durable = on_durable
        # called with all pending writes, and the reason, once a write failed
        self._on_failed = on_failed
        # whether `do_other_work` should be called
        self._has_other_work = has_other_work
        # does a little other work between two groups; True if it can be called again at once
        self._do_other_work = do_other_work
        self._health = WriteHealth(log.files.directory)
        # the last durable group, until it is reported
        self._durable: list[PendingWrite] = []
        # the group on its way to the disk
        self._writing: list[PendingWrite] = []
        # the group being filled
        self._open: list[PendingWrite] = []
        # writes that did not fit into the open group
        self._queue: deque[PendingWrite] = deque()
        self._wake = asyncio.Event()
        self._ending = False

    def check_capacity(self, size: int) -> None:
        """Raise `OverloadedError` if *size* more bytes are too many; a single write always fits."""
        if not self.has_room(size):
            reason = (
                f"{self.pending_bytes} bytes wait for the disk, of {self._limits.pending} allowed"
            )
            raise OverloadedError(size, reason)

    def has_room(self, *sizes: int) -> bool:
        """Return whether writes of *sizes* bytes may be added to the pending ones.

        True while nothing is pending: a write over the limit is taken alone.
        """
        more = sum(sizes) + TOLL * len(sizes)
        return not self.pending_bytes or self.pending_bytes + more <= self._limits.pending

    def enqueue(self, write: PendingWrite) -> None:
        """Add *write* to the next group, or queue it for a later one.

        Raises `TransientError` like `Log.add_entry`, and changes nothing then.
        """
        entry = write.entry
        # once one waits, all behind it do: writes become durable in the order of submission
        if self._queue or not self._fits(entry.length):
            self._queue.append(write)
        else:
            self._add_to_group(write)
        self.pending_bytes += entry.length + TOLL
        self._wake.set()

    def stop(self) -> None:
        """Make `run` return once nothing is pending."""
        self._ending = True
        self._wake.set()

    async def run(self) -> None:
        """Commit groups until `stop`. Raises `StorageError` once the log has failed for good."""
        while True:
            # nothing to write meanwhile, or other work that needs the index up to date
            if not (self._open or self._queue) or self._has_other_work():
                self._report_durable()

            more = not self._ending and self._has_other_work() and await self._do_other_work()
            if self._open or self._queue:
                await self._commit_group()
            elif self._ending:
                return
            elif more:
                await asyncio.sleep(0)  # the next step at once, but let submitters run
            else:
                self._wake.clear()
                await self._wake.wait()

    def fail_pending(self, reason: LogdriveError) -> None:
        """Fail all pending writes with *reason*."""
        lost = [*self._durable, *self._writing, *self._open, *self._queue]
        self._durable, self._writing, self._open = [], [], []
        self._queue.clear()
        self._log.drop_uncommitted()
        self.pending_bytes = 0
        self._on_failed(lost, reason)

    async def _commit_group(self) -> None:
        try:
            # not even the first entry fits: begin a new log file, with nothing in flight
            if not self._fill():
                self._report_durable()
                self._log.drop_uncommitted()
                await self._executor.run(self._log.begin_next_file)
                self._fill()
            await self._write()
        except (TransientError, StorageError) as error:
            self._report_durable()  # the group before is durable and did not fail
            self.fail_pending(error)
            if isinstance(error, StorageError):  # nothing can become durable any more
                raise
            self._health.on_write_failed(str(error))
            return
        self._health.on_write_succeeded()
        self._durable, self._writing = self._writing, []

    async def _write(self) -> None:
        """Write the open group; meanwhile report the previous group and fill the next one."""
        self._writing, self._open = self._open, []
        written = self._executor.start(self._log.commit_group, self._log.seal_group())
        try:
            self._report_durable()
            # without memory for the next group, it is tried again after this one
            with contextlib.suppress(TransientError):
                self._fill()
        finally:
            await written

    def _fill(self) -> bool:
        """Move queued writes to the open group while they fit; return whether it has any."""
        queue = self._queue
        while queue and self._fits(queue[0].entry.length):
            self._add_to_group(queue[0])
            queue.popleft()
        return bool(self._open)

    def _add_to_group(self, write: PendingWrite) -> None:
        """Add *write*, which must fit, to the open group. Raises `TransientError`."""
        self._log.add_entry(write.entry)
        self._on_added(write)
        self._open.append(write)

    def _fits(self, length: int) -> bool:
        """Return whether an entry with *length* bytes of data fits into the open group."""
        return len(self._open) < self._limits.group_entries and self._log.fits(length)

    def _report_durable(self) -> None:
        """Report the last durable group."""
        if group := self._durable:
            self.pending_bytes -= sum(write.entry.length for write in group) + TOLL * len(group)
            self._on_durable(group)
            self._durable = []
