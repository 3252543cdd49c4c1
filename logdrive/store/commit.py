"""Group commit: everything submitted meanwhile becomes durable with one write and one fdatasync."""

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
"""What a submission counts beside its bytes: about what its objects take in memory."""


class GroupCommit:
    """The queue before the log, and the one loop that empties it.

    While one group is written, the next is put together from what is submitted, as far as it has
    room; the rest waits in the queue. *settled* is told of each group once it is durable, as a rule
    while the next one is being written; *failed* of the reason once a write failed, after which
    nothing waits: what was behind the failed group had been compared with it. Where there is other
    work *due*, *between* is called between two groups, all being settled, for a little of it; True
    lets it be called again without a group.
    """

    def __init__(
        self,
        log: Log,
        executor: Executor,
        limits: StoreLimits,
        *,
        settled: Callable[[Sequence[PendingWrite]], None],
        failed: Callable[[Sequence[PendingWrite], LogdriveError], None],
        due: Callable[[], bool],
        between: Callable[[], Awaitable[bool]],
    ) -> None:
        self.pending_bytes = 0
        self._log = log
        self._executor = executor
        self._limits = limits
        self._settled, self._failed, self._due, self._between = settled, failed, due, between
        self._complaint = WriteHealth(log.files.directory)
        self._durable: list[PendingWrite] = []
        self._writing: list[PendingWrite] = []
        self._open: list[PendingWrite] = []
        self._queue: deque[PendingWrite] = deque()
        self._wake = asyncio.Event()
        self._ending = False

    def check(self, size: int) -> None:
        """Raise `OverloadedError` where *size* more bytes are too many; one submission alone always
        fits.
        """
        if self.pending_bytes and self.pending_bytes + size + TOLL > self._limits.pending:
            raise OverloadedError(
                f"{self.pending_bytes} bytes wait for the disk, of {self._limits.pending} allowed"
            )

    def submit(self, submission: PendingWrite) -> None:
        """Add *submission* to the next group, or queue it for a later one.

        Raises `TransientError`, having done nothing, as `Log.add`.
        """
        entry = submission.entry
        if self._queue or not self._takes(entry.length):
            self._queue.append(submission)
        else:
            self._log.add(entry)
            self._open.append(submission)
        self.pending_bytes += entry.length + TOLL
        self._wake.set()

    def end(self) -> None:
        """Let `run` return once nothing waits."""
        self._ending = True
        self._wake.set()

    async def run(self) -> None:
        """Commit groups until `end`. Raises `StorageError` once the log is over."""
        while True:
            if not (self._open or self._queue) or self._due():
                self._settle()
            more = not self._ending and self._due() and await self._between()
            if self._open or self._queue:
                await self._commit_group()
            elif self._ending:
                return
            elif more:
                await asyncio.sleep(0)
            else:
                self._wake.clear()
                await self._wake.wait()

    def abandon(self, reason: LogdriveError) -> None:
        """Fail all that nobody was told of."""
        lost = [*self._durable, *self._writing, *self._open, *self._queue]
        self._durable, self._writing, self._open = [], [], []
        self._queue.clear()
        self._log.forget()
        self.pending_bytes = 0
        self._failed(lost, reason)

    async def _commit_group(self) -> None:
        try:
            if not self._fill():
                self._settle()
                self._log.forget()
                await self._executor.run(self._log.roll)
                self._fill()
            await self._write()
        except (TransientError, StorageError) as error:
            self._settle()  # what is durable did not fail
            self.abandon(error)
            if isinstance(error, StorageError):
                raise
            self._complaint.failed(str(error))
            return
        self._complaint.succeeded()
        self._durable, self._writing = self._writing, []

    async def _write(self) -> None:
        """Let the disk have the open group, and meanwhile settle the one before and begin the
        next.
        """
        self._writing, self._open = self._open, []
        written = self._executor.start(self._log.commit, self._log.seal())
        try:
            self._settle()
            # no memory: said once the group under way is durable
            with contextlib.suppress(TransientError):
                self._fill()
        finally:
            await written

    def _fill(self) -> bool:
        """Put what waits into the open group, as far as it fits, and tell whether there is anything
        in that.
        """
        queue, log = self._queue, self._log
        while queue and self._takes(queue[0].entry.length):
            log.add(queue[0].entry)
            self._open.append(queue.popleft())
        return bool(self._open)

    def _takes(self, length: int) -> bool:
        """Tell whether an entry with *length* bytes of data fits into the open group."""
        return len(self._open) < self._limits.group_entries and self._log.takes(length)

    def _settle(self) -> None:
        """Tell of the group written last."""
        if group := self._durable:
            self.pending_bytes -= sum(submission.entry.length for submission in group) + TOLL * len(
                group
            )
            self._settled(group)
            self._durable = []
