"""The embedded store: append-only segments and writers' numbers, durable together.

One event loop owns a `Store`; only its log's write and fdatasync run elsewhere, on an executor of
one thread. Everything is *submitted* on the loop, where it is compared with what was submitted
before, and becomes *durable* in that order, by groups. What is told to the outside (lengths,
numbers, reads) is durable. The format on disk: `logdrive.store.log.log`.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from random import Random, SystemRandom
from uuid import UUID

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.model.framing import Part
from logdrive.store.changes import Changes
from logdrive.store.checkpoint import IndexCheckpoint
from logdrive.store.commit import GroupCommit
from logdrive.store.errors import NoSuchSegmentError, SegmentTruncatedError, StoreDamagedError
from logdrive.store.index.index import Appended, SegmentIndex, SegmentInfo
from logdrive.store.limits import StoreLimits
from logdrive.store.log.format import APPEND, CREATE, MERGE, seed_of
from logdrive.store.opening import opened
from logdrive.store.pending import PendingWrite, PendingWrites
from logdrive.store.reader import LogReader
from logdrive.store.reclaim import Reclaimer
from logdrive.store.recovery import Recovered
from logdrive.store.waiting import Waiters


class Store(Changes):
    """One store directory.

    `open` it, run `run` as a task until the end; `close` ends that task in good order.

    *store_id* names the log for as long as it lives; *recovery* says what the start found. Methods
    that submit raise at once, storing nothing, where what they expect is not so:
    `NoSuchSegmentError`, `SegmentSealedError`, and those they name; also `OverloadedError` where
    too much is pending (`room` waits until it is not), and `TransientError` once the store closes.
    Their futures fail with `TransientError` where the disk took nothing (it is full; all then
    submitted fails, and numbers and lengths are the durable ones again), with `StorageError` where
    it never will again. Cancelling a future undoes nothing.
    """

    @classmethod
    async def open(
        cls,
        path: str,
        *,
        disk: Disk,
        executor: Executor,
        clock: Clock,
        limits: StoreLimits = StoreLimits(),
        random: Random | None = None,
    ) -> "Store":
        """Take the lock and recover, making the store where there is none.

        *executor* must have one thread; it stays the caller's.

        Raises `StoreInUseError`, `StoreDamagedError`, `StorageError`.
        """
        lock = ExitStack()
        try:
            found = await executor.run(
                opened, disk, os.path.abspath(path), limits, random or SystemRandom(), lock
            )
        except BaseException:
            lock.close()
            raise
        return cls(
            os.path.abspath(path),
            found,
            lock,
            disk=disk,
            executor=executor,
            clock=clock,
            limits=limits,
        )

    def __init__(
        self,
        path: str,
        found: Recovered,
        lock: ExitStack,
        *,
        disk: Disk,
        executor: Executor,
        clock: Clock,
        limits: StoreLimits,
    ) -> None:
        super().__init__(PendingWrites(found.index), clock, limits)
        self.path = path
        self.store_id = found.log.store_id
        self.recovery = found.report
        self._executor = executor
        self._lock = lock
        self._log = found.log
        self._index = found.index
        self._checkpoint = IndexCheckpoint(
            found, self.path, disk=disk, executor=executor, limits=limits
        )
        self._reader = LogReader(disk, found.log.files, limits, seed_of(self.store_id))
        self._waiters = Waiters()
        self._commit = GroupCommit(
            found.log,
            executor,
            limits,
            settled=self._settled,
            failed=self._failed,
            due=self._due,
            between=self._between,
        )
        self._survivors = LogReader(disk, found.log.files, limits, seed_of(self.store_id))
        self._freeing = Reclaimer(
            found.index,
            self._checkpoint,
            self._survivors,
            disk=disk,
            executor=executor,
            limits=limits,
            copy=self._copy,
            forget=self._reader.forget,
        )
        self._rolls = found.log.rolls
        self._running = False
        self._finished = asyncio.Event()

    # Life ----------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Commit until *stop* or `close`; then commit what was submitted, write the index and let
        go of the directory.

        Raises `StorageError` once nothing can become durable any more: the process must end.
        Cancelled, it lets go at once.
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
                self._survivors.close()
                self._reader.close()
                self._lock.close()
                self._finished.set()

    async def close(self) -> None:
        """Take nothing more, make durable what was submitted, and let go; returns when that is
        done. Safe to call twice.
        """
        self._end()
        if self._running:
            await self._finished.wait()
        else:
            await self.run(asyncio.Event())

    def _end(self) -> None:
        self._refusal = self._refusal or TransientError(f"the store in {self.path} is closed")
        self._commit.end()
        self._waiters.wake_all()

    async def room(self) -> None:
        """Return once an append of the usual size will not be refused with `OverloadedError`."""
        while self._commit.pending_bytes > self._limits.pending // 2 and self._refusal is None:
            await self._waiters.wait(_ROOM)

    # Asking --------------------------------------------------------------------------------------

    async def number(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number, once all that was submitted for it is durable or has
        failed (rules D2, S2).
        """
        self._check_open()
        while self._submissions.pending(
            segment, writer.bytes
        ) is not None or self._submissions.comes_or_goes(segment):
            await self._waiters.wait(segment)
            self._check_open()
        return self._index.number(self._durable(segment), writer.bytes)

    async def undecided(self, segment: str) -> bool:
        """Return False at once where *segment* is not about to be sealed or to go; else True, once
        that is durable or has failed.

        Who was refused for that reason tries again: what is told of it must be durable (rule D2).
        """
        self._check_open()
        if not self._submissions.ends(segment):
            return False
        while self._submissions.ends(segment):
            await self._waiters.wait(segment)
            self._check_open()
        return True

    def attribute(self, segment: str, attribute: UUID) -> int:
        """Return the durable value of an attribute, `ABSENT` where it has none."""
        return self._index.number(self._durable(segment), attribute.bytes)

    def info(self, segment: str) -> SegmentInfo | None:
        """Return what is durable of *segment*, None where there is none."""
        found = self._index.by_name.get(segment)
        return found.info() if found is not None else None

    def segments(self, prefix: str = "") -> list[str]:
        """Return the names of the durable segments that begin with *prefix*, in the order of their
        creation.
        """
        return [name for name in self._index.by_name if name.startswith(prefix)]

    def append_at(self, segment: str, offset: int) -> Appended:
        """Return which append *offset*, in [start, length) of *segment*, belongs to.

        Raises `SegmentTruncatedError`, `StorageError`.
        """
        self._check_open()
        found = self._durable(segment)
        if not found.start <= offset < found.length:
            raise SegmentTruncatedError(segment, found.start)
        extent = found.extent_at(offset)
        try:
            time_ms = self._reader.time_ms(extent)
        except StoreDamagedError:
            time_ms = None
        except OSError as error:
            raise StorageError(f"the store can't read its log in {self.path}: {error}") from error
        return Appended(extent.offset, extent.length, time_ms)

    def read(
        self, segment: str, offset: int, limit: int, *, check: bool = True, most: int | None = None
    ) -> bytes:
        """Return up to *limit* durable bytes from *offset*, checked against their CRC unless told
        not to; b"" at the end or beyond it.

        With *most* they are those of so many appends at most. Reads on the loop, from the page
        cache as a rule. Raises `SegmentTruncatedError` below the segment's start, and
        `StoreDamagedError`, which concerns that place only.
        """
        return b"".join(self.read_parts(segment, offset, limit, check=check, most=most))

    def read_parts(
        self, segment: str, offset: int, limit: int, *, check: bool = True, most: int | None = None
    ) -> list[Part]:
        """Return the same uncopied, a part for each append.

        They keep what was read around them in memory: let go of them soon.
        """
        if offset < 0 or limit < 0:
            raise ValueError("offset and limit can't be negative")
        self._check_open()
        found = self._durable(segment)
        if offset < found.start:
            raise SegmentTruncatedError(segment, found.start)
        return self._reader.read(found, offset, limit, check=check, most=most)

    def follow(self, segment: str, offset: int) -> None:
        """Take note that somebody outside reads *segment* at *offset*: near its end, what is
        appended next is kept in memory for them.
        """
        if (found := self._index.by_name.get(segment)) is not None:
            self._reader.follow(found, offset)

    async def wait(self, segment: str, offset: int, timeout: float) -> bool:
        """Return True once *segment* is longer than *offset* or sealed, False after *timeout*
        seconds.

        Raises `NoSuchSegmentError` once it is gone.
        """
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

    def watch(self, segment: str) -> "asyncio.Future[None]":
        """Return what is done once *segment*, there or not, has changed; with the store's end, too.

        Then look again.

        Call `unwatch` where nobody waits for it any more. Raises `StorageError`, `TransientError`
        as all methods do.
        """
        self._check_open()
        return self._waiters.watch(segment)

    def unwatch(self, segment: str, watch: "asyncio.Future[None]") -> None:
        """Forget and cancel what `watch` returned for *segment*."""
        self._waiters.unwatch(segment, watch)

    # ---------------------------------------------------------------------------------------------

    def _durable(self, segment: str) -> SegmentIndex:
        found = self._index.by_name.get(segment)
        if found is None:
            raise NoSuchSegmentError(segment)
        return found

    def _due(self) -> bool:
        return self._log.rolls != self._rolls or self._freeing.due

    async def _between(self) -> bool:
        """Write the index after a new file was begun, and free old ones."""
        if self._log.rolls != self._rolls:
            self._rolls = self._log.rolls
            await self._checkpoint.write()
        return await self._freeing.step()

    def _settled(self, group: Sequence[PendingWrite]) -> None:
        touched: dict[str, None] = {}
        for submission in group:
            entry = submission.entry
            if entry.kind == CREATE:
                self._index.create(entry.segment, submission.ahead.name, entry.time_ms)
            else:
                self._index.apply(
                    entry, entry.place, b"".join(entry.parts) if entry.kind == MERGE else b""
                )
                if entry.kind == APPEND:
                    self._reader.committed(
                        self._index.by_number[entry.segment], entry.place, entry.parts
                    )
            self._submissions.settle(submission)
            submission.resolve()
            touched[submission.ahead.name] = None
            if submission.source is not None:
                touched[submission.source.name] = None
        for segment in touched:
            self._waiters.wake(segment)
        self._waiters.wake(_ROOM)

    def _failed(self, lost: Sequence[PendingWrite], reason: LogdriveError) -> None:
        self._submissions.forget()
        if isinstance(reason, StorageError):
            self._refusal = reason
        for submission in lost:
            submission.reject(reason)
        self._waiters.wake_all()


__all__ = ["SegmentInfo", "Store"]

_ROOM = ""  # no segment's name
