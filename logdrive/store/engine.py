"""The embedded store: append-only segments and writers' numbers, durable together.

One event loop owns a `Store`; only its log's write and fdatasync run elsewhere, on an executor of one thread. Everything is
*submitted* on the loop, where it is compared with what was submitted before, and becomes *durable* in that order, by groups.
What is told to the outside (lengths, numbers, reads) is durable. The format on disk: `logdrive.store.log`.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from random import Random, SystemRandom
from typing import Any
from uuid import UUID

from logdrive.clock import Clock
from logdrive.disk import Disk
from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.executor import Executor
from logdrive.limits import StoreLimits
from logdrive.record import ABSENT
from logdrive.store.checkpoint import Checkpoint
from logdrive.store.commit import GroupCommit
from logdrive.store.entry import APPEND, CREATE, SEAL, UPDATE, Entry, seed_of
from logdrive.store.errors import NoSuchSegmentError, NumberMismatchError, OffsetMismatchError, SegmentSealedError
from logdrive.store.index import SegmentIndex, SegmentInfo
from logdrive.store.opening import opened
from logdrive.store.reader import LogReader
from logdrive.store.recovery import Recovered
from logdrive.store.submission import Ahead, Submission, Submissions
from logdrive.store.waiting import Waiters


class Store:
    """One store directory. `open` it, run `run` as a task until the end; `close` ends that task in good order.

    *store_id* names the log for as long as it lives; *recovery* says what the start found. Methods that submit raise at once,
    storing nothing, where what they expect is not so: `NoSuchSegmentError`, `SegmentSealedError`, and those they name; also
    `OverloadedError` where too much is pending (`room` waits until it is not), and `TransientError` once the store closes.
    Their futures fail with `TransientError` where the disk took nothing (it is full; all then submitted fails, and numbers and
    lengths are the durable ones again), with `StorageError` where it never will again. Cancelling a future undoes nothing.
    """

    @classmethod
    async def open(
        cls,
        path: str,
        *,
        disk: Disk,
        executor: Executor,
        clock: Clock,
        limits: StoreLimits = StoreLimits(),  # noqa: B008 - frozen
        random: Random | None = None,
    ) -> "Store":
        """Take the lock and recover, making the store where there is none. *executor* must have one thread; it stays the caller's.

        Raises `StoreInUseError`, `DamagedError`, `StorageError`.
        """
        lock = ExitStack()
        try:
            found = await executor.run(opened, disk, os.path.abspath(path), limits, random or SystemRandom(), lock)
        except BaseException:
            lock.close()
            raise
        return cls(os.path.abspath(path), found, lock, disk=disk, executor=executor, clock=clock, limits=limits)

    def __init__(
        self, path: str, found: Recovered, lock: ExitStack, *, disk: Disk, executor: Executor, clock: Clock, limits: StoreLimits
    ) -> None:
        self.path = path
        self.store_id = found.log.store_id
        self.recovery = found.report
        self._executor, self._clock, self._limits = executor, clock, limits
        self._lock = lock
        self._log = found.log
        self._index = found.index
        self._checkpoint = Checkpoint(found, self.path, disk=disk, executor=executor)
        self._submissions = Submissions(found.index)
        self._reader = LogReader(disk, found.log.files, limits, seed_of(self.store_id))
        self._waiters = Waiters()
        self._commit = GroupCommit(found.log, executor, limits, settled=self._settled, failed=self._failed, rolled=self._checkpoint.write)
        self._refusal: StorageError | TransientError | None = None
        self._running = False
        self._finished = asyncio.Event()

    # Life --------------------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Commit until *stop* or `close`; then commit what was submitted, write the index and let go of the directory.

        Raises `StorageError` once nothing can become durable any more: the process must end. Cancelled, it lets go at once.
        """
        if self._running:  # `close` came first and does it
            await self._finished.wait()
            return
        self._running = True
        watch = asyncio.ensure_future(stop.wait())
        watch.add_done_callback(lambda _: self._end())
        try:
            await self._commit.run()
            await self._checkpoint.write()
        except StorageError as error:
            self._refusal = error
            raise
        finally:
            watch.cancel()
            self._end()
            self._commit.abandon(TransientError("the store closed before this was durable"))
            try:
                await self._executor.run(self._log.close)
            finally:  # it may be cancelled while it waits for that
                self._reader.close()
                self._lock.close()
                self._finished.set()

    async def close(self) -> None:
        """Take nothing more, make durable what was submitted, and let go; returns when that is done. Safe to call twice."""
        self._end()
        if self._running:
            await self._finished.wait()
        else:
            await self.run(asyncio.Event())

    def _end(self) -> None:
        self._refusal = self._refusal or TransientError(f"the store in {self.path} is closed")
        self._commit.end()
        self._waiters.wake_all()

    # Submitting --------------------------------------------------------------------------------------------------------

    def create(self, segment: str) -> "asyncio.Future[bool]":
        """Create *segment*; the future is False where it exists, which is said only once that is durable."""
        self._check_open()
        name = segment.encode()
        if not name or len(name) > self._limits.segment_name:
            raise ValueError(f"a segment's name has 1 to {self._limits.segment_name} bytes, not {len(name)}")
        try:
            ahead = self._submissions.segment(segment)
        except NoSuchSegmentError:
            ahead = Ahead(self._submissions.next_number(), 0)
            return self._submit(ahead, segment, CREATE, True, parts=(name,), length=len(name))
        return self._answer_after(ahead.creating, False)

    def append(
        self,
        segment: str,
        data: bytes | Sequence[bytes],
        *,
        writer: UUID,
        expected: int | None,
        number: int,
        events: int,
        expected_offset: int | None = None,
    ) -> "asyncio.Future[int]":
        """Append *data*, whole or in parts, and take *writer* from *expected* (`ABSENT`: never seen; None: any) to *number*, in one.

        The future is the segment's length after this append. *number* must be above the writer's. Raises
        `NumberMismatchError`, then `OffsetMismatchError` where *expected_offset* is not the length with what is submitted.
        The parts are not copied: leave them as they are. Costs about 5 µs on the loop, however large.
        """
        ahead = self._open_segment(segment)
        parts: Sequence[bytes] = (data,) if isinstance(data, bytes) else data
        length = sum(map(len, parts))
        key = writer.bytes
        previous = self._submissions.number(segment, key)
        if number <= previous or (expected is not None and expected != previous):
            raise NumberMismatchError(previous)
        if expected_offset is not None and expected_offset != ahead.length:
            raise OffsetMismatchError(ahead.length)
        if length > self._limits.entry or not 0 <= events <= _MAX_EVENTS:
            raise ValueError(f"an append has up to {self._limits.entry} bytes and {_MAX_EVENTS} events, not {length} and {events}")
        end = ahead.length + length
        return self._submit(
            ahead, segment, APPEND, end, parts=parts, length=length, events=events, writer=key, previous=previous, number=number
        )

    def update(self, segment: str, attribute: UUID, expected: int | None, value: int) -> "asyncio.Future[bool]":
        """Set an attribute (a writer's number is one) to *value*, `ABSENT` to remove it, if it is *expected* (None: whatever it is).

        The future is False where it is not, which is said only once what stands there is durable.
        """
        ahead = self._open_segment(segment)
        key = attribute.bytes
        previous = self._submissions.number(segment, key)
        if expected is not None and expected != previous:
            return self._answer_after(self._submissions.pending(segment, key), False)
        return self._submit(ahead, segment, UPDATE, True, writer=key, previous=previous, number=value)

    def seal(self, segment: str) -> "asyncio.Future[None]":
        """Let *segment* take nothing more."""
        return self._submit(self._open_segment(segment), segment, SEAL, None)

    def submitted(self, segment: str, writer: UUID) -> int:
        """Return the number submitted last for *writer*, durable or not."""
        return self._submissions.number(segment, writer.bytes)

    async def room(self) -> None:
        """Return once an append of the usual size will not be refused with `OverloadedError`."""
        while self._commit.pending_bytes > self._limits.pending // 2 and self._refusal is None:
            await self._waiters.wait(_ROOM)

    # Asking ------------------------------------------------------------------------------------------------------------

    async def number(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number, once all that was submitted for it is durable or has failed (rules D2, S2)."""
        self._check_open()
        while self._submissions.pending(segment, writer.bytes) is not None or self._submissions.is_new(segment):
            await self._waiters.wait(segment)
            self._check_open()
        return self._durable(segment).numbers.get(writer.bytes, ABSENT)

    def attribute(self, segment: str, attribute: UUID) -> int:
        """Return the durable value of an attribute, `ABSENT` where it has none."""
        return self._durable(segment).numbers.get(attribute.bytes, ABSENT)

    def info(self, segment: str) -> SegmentInfo | None:
        """Return what is durable of *segment*, None where there is none."""
        found = self._index.by_name.get(segment)
        return found.info() if found is not None else None

    def segments(self, prefix: str = "") -> list[str]:
        """Return the names of the durable segments that begin with *prefix*, in the order of their creation."""
        return [name for name in self._index.by_name if name.startswith(prefix)]

    def read(self, segment: str, offset: int, limit: int) -> bytes:
        """Return up to *limit* durable bytes from *offset*, checked against their CRC; b"" at the end or beyond it.

        Reads on the loop, from the page cache as a rule. Raises `DamagedError`, which concerns that place only.
        """
        if offset < 0 or limit < 0:
            raise ValueError("offset and limit can't be negative")
        self._check_open()
        return self._reader.read(self._durable(segment), offset, limit)

    async def wait(self, segment: str, offset: int, timeout: float) -> bool:
        """Return True once *segment* is longer than *offset* or sealed, False after *timeout* seconds."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    found = self._durable(segment)
                    if found.length > offset or found.sealed:
                        return True
                    self._check_open()
                    await self._waiters.wait(segment)
        except TimeoutError:
            return False

    # -------------------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise type(self._refusal)(str(self._refusal))  # a new one each time: a traceback grows with every raise

    def _durable(self, segment: str) -> SegmentIndex:
        found = self._index.by_name.get(segment)
        if found is None:
            raise NoSuchSegmentError(segment)
        return found

    def _open_segment(self, segment: str) -> Ahead:
        self._check_open()
        ahead = self._submissions.segment(segment)
        if ahead.sealed:
            raise SegmentSealedError(segment)
        return ahead

    def _submit(self, ahead: Ahead, segment: str, kind: int, answer: Any, **fields: Any) -> "asyncio.Future[Any]":
        entry = Entry(kind, ahead.number, self._clock.now_ms(), **fields)
        if not ABSENT <= entry.number <= _MAX_NUMBER:
            raise ValueError(f"{entry.number} is no number of 64 bits")
        self._commit.check(entry.length)
        submission = Submission(entry, segment, asyncio.get_running_loop().create_future(), answer)
        self._submissions.add(submission, ahead)
        self._commit.submit(submission)
        return submission.future

    def _answer_after(self, pending: Submission | None, answer: bool) -> "asyncio.Future[bool]":
        """Return a future that is *answer* once *pending* is durable, or fails as it does."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if pending is None:
            future.set_result(answer)
        else:
            pending.followers.append((future, answer))
        return future

    def _settled(self, group: Sequence[Submission]) -> None:
        touched: dict[str, None] = {}
        for submission in group:
            entry = submission.entry
            if entry.kind == CREATE:
                self._index.create(entry.segment, submission.segment, entry.time_ms)
            else:
                self._index.apply(entry, entry.place)
            self._submissions.settle(submission)
            submission.resolve()
            touched[submission.segment] = None
        for segment in touched:
            self._waiters.wake(segment)
        self._waiters.wake(_ROOM)

    def _failed(self, lost: Sequence[Submission], reason: LogdriveError) -> None:
        self._submissions.forget()
        if isinstance(reason, StorageError):
            self._refusal = reason
        for submission in lost:
            submission.reject(reason)
        self._waiters.wake_all()


__all__ = ["SegmentInfo", "Store"]

_ROOM = ""  # no segment's name
_MAX_EVENTS = (1 << 32) - 1
_MAX_NUMBER = (1 << 63) - 1
