"""Group commit: everything submitted meanwhile becomes durable with one write and one fdatasync."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.executor import Executor
from logdrive.limits import StoreLimits
from logdrive.store.complaint import Complaint
from logdrive.store.errors import OverloadedError
from logdrive.store.log import Log
from logdrive.store.submission import Submission

TOLL = 512
"""What a submission counts beside its bytes: about what its objects take in memory."""


class GroupCommit:
    """The queue before the log, and the one loop that empties it.

    *settled* is told of each group once it is durable; *failed* of the reason once a write failed, after which the queue is
    empty: what was behind the failed group had been compared with it. *between* is called between two groups, for a little of
    other work; True lets it be called again without a group.
    """

    def __init__(
        self,
        log: Log,
        executor: Executor,
        limits: StoreLimits,
        *,
        settled: Callable[[Sequence[Submission]], None],
        failed: Callable[[Sequence[Submission], LogdriveError], None],
        between: Callable[[], Awaitable[bool]],
    ) -> None:
        self.pending_bytes = 0
        self._log = log
        self._executor = executor
        self._limits = limits
        self._settled, self._failed, self._between = settled, failed, between
        self._complaint = Complaint(log.files.directory)
        self._queue: deque[Submission] = deque()
        self._group: list[Submission] = []
        self._wake = asyncio.Event()
        self._ending = False

    def check(self, size: int) -> None:
        """Raise `OverloadedError` where *size* more bytes are too many; one submission alone always fits."""
        if self.pending_bytes and self.pending_bytes + size + TOLL > self._limits.pending:
            raise OverloadedError(f"{self.pending_bytes} bytes wait for the disk, of {self._limits.pending} allowed")

    def submit(self, submission: Submission) -> None:
        """Queue *submission* for the next group."""
        self.pending_bytes += submission.entry.length + TOLL
        self._queue.append(submission)
        self._wake.set()

    def end(self) -> None:
        """Let `run` return once the queue is empty."""
        self._ending = True
        self._wake.set()

    async def run(self) -> None:
        """Commit groups until `end`. Raises `StorageError` once the log is over."""
        while True:
            more = not self._ending and await self._between()
            if self._queue:
                await self._commit_group()
            elif self._ending:
                return
            elif more:
                await asyncio.sleep(0)
            else:
                self._wake.clear()
                await self._wake.wait()

    def abandon(self, reason: LogdriveError) -> None:
        """Fail all that is not durable."""
        lost = [*self._group, *self._queue]
        self._group = []
        self._queue.clear()
        self.pending_bytes = 0
        self._failed(lost, reason)

    async def _commit_group(self) -> None:
        group = self._group = self._take()
        try:
            await self._executor.run(self._log.commit, [submission.entry for submission in group])
        except (TransientError, StorageError) as error:
            self.abandon(error)
            if isinstance(error, StorageError):
                raise
            self._complaint.failed(str(error))
            return
        self._complaint.succeeded()
        self.pending_bytes -= sum(submission.entry.length for submission in group) + TOLL * len(group)
        self._settled(group)
        self._group = []

    def _take(self) -> list[Submission]:
        """Take from the queue what one write should carry: at least one submission, then up to the limit."""
        group = [self._queue.popleft()]
        size = group[0].entry.length
        while self._queue and size + self._queue[0].entry.length <= self._limits.group:
            group.append(self._queue.popleft())
            size += group[-1].entry.length
        return group
