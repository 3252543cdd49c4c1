"""The embedded store: append-only segments and writers' numbers, durable together.

One event loop owns a `Store`; only the log's write and fdatasync run elsewhere, on an executor with
one thread. A change is *submitted* on the loop, where it is checked against everything submitted
before it. It becomes *durable* in that order, in groups. All results (lengths, numbers, reads) are
durable. The format on disk is described in `logdrive.store.log.log`.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
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
from logdrive.store.index.index import Appended, Extent, SegmentIndex, SegmentInfo
from logdrive.store.limits import StoreLimits
from logdrive.store.log.format import APPEND, CREATE, MERGE, seed_of
from logdrive.store.opening import open_and_recover
from logdrive.store.pending import PendingWrite, PendingWrites
from logdrive.store.reader import LogReader
from logdrive.store.reclaim import Reclaimer
from logdrive.store.recovery import Recovered
from logdrive.store.waiting import Waiters

_ROOM = ""
"""Key of the tasks that wait for room; no segment has this name."""


class Store(Changes):
    """One store directory.

    Call `open`, then run `run` as a task until the end; `close` ends that task in good order.

    *store_id* is the id of the log; *recovery* says what the start found.

    Methods that submit a change raise at once, and store nothing, if it is refused:
    `NoSuchSegmentError`, `SegmentSealedError`, and the errors that each method names. They also
    raise `OverloadedError` if too much is pending (`room` waits until it is not), and
    `TransientError` once the store closes.

    The futures they return fail with `TransientError` if the disk took nothing, for example because
    it is full: all pending changes fail then, and numbers and lengths are the durable ones again.
    They fail with `StorageError` if the store can never write again. Cancelling a future undoes
    nothing.
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
        """Lock the directory and recover the store; a missing store is created.

        *executor* must have one thread; the caller closes it. Raises `StoreInUseError`,
        `StoreDamagedError`, `StorageError`.
        """
        lock = ExitStack()
        try:
            recovered = await executor.run(
                open_and_recover,
                disk,
                os.path.abspath(path),
                limits,
                random or SystemRandom(),
                lock,
            )
        except BaseException:
            lock.close()
            raise
        return cls(
            os.path.abspath(path),
            recovered,
            lock,
            disk=disk,
            executor=executor,
            clock=clock,
            limits=limits,
        )

    def __init__(
        self,
        path: str,
        recovered: Recovered,
        lock: ExitStack,
        *,
        disk: Disk,
        executor: Executor,
        clock: Clock,
        limits: StoreLimits,
    ) -> None:
        pending = PendingWrites(recovered.index)
        commit = GroupCommit(
            recovered.log,
            executor,
            limits,
            on_added=pending.release_data,
            on_durable=self._on_durable,
            on_failed=self._on_failed,
            has_other_work=self._has_other_work,
            do_other_work=self._do_other_work,
        )
        super().__init__(pending, commit, clock, limits)
        self.path = path
        self.store_id = recovered.log.store_id
        self.recovery = recovered.report
        self._executor = executor
        self._lock = lock
        self._log = recovered.log
        self._index = recovered.index
        self._checkpoint = IndexCheckpoint(
            recovered, self.path, disk=disk, executor=executor, limits=limits
        )
        self._reader = LogReader(disk, recovered.log.files, limits, seed_of(self.store_id))
        self._waiters = Waiters()
        # a second reader, on the executor's thread: reads what is copied to the log's end
        self._copy_reader = LogReader(disk, recovered.log.files, limits, seed_of(self.store_id))
        self._reclaimer = Reclaimer(
            recovered.index,
            self._checkpoint,
            self._copy_reader,
            disk=disk,
            executor=executor,
            limits=limits,
            submit_copy=self._submit_copy,
            before_remove=self._reader.close_file,
        )
        # `Log.rolls` when the index was written last
        self._rolls = recovered.log.rolls
        self._running = False
        self._finished = asyncio.Event()

    # Life ----------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Commit until *stop* is set or `close` is called; then make pending changes durable.

        At the end the index is written, and the directory's lock is released. Raises `StorageError`
        once nothing can become durable any more: the process must exit then. If it is cancelled it
        stops at once, without writing.
        """
        if self._running:  # `close` was called first and does the work
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
            await self._release()

    async def abandon(self) -> None:
        """Release the directory without making pending changes durable, unless `run` has begun.

        A task that is cancelled before its first step never gets to `run`.
        """
        if not self._running:
            self._running = True
            await self._release()

    async def _release(self) -> None:
        self._end()
        # nothing is left after a clean end; after a cancellation all that was not durable
        self._commit.fail_pending(TransientError("the store closed before this was durable"))
        try:
            await self._executor.run(self._log.close)
        finally:  # also if this is cancelled while it waits for the executor
            self._copy_reader.close()
            self._reader.close()
            self._lock.close()
            self._finished.set()

    async def close(self) -> None:
        """Accept no more changes, make the pending ones durable, and release the directory.

        Returns when that is done. It may be called twice.
        """
        self._end()
        if self._running:
            await self._finished.wait()
        else:
            await self.run(asyncio.Event())

    def _end(self) -> None:
        self._refusal = self._refusal or TransientError(f"the store in {self.path} is closed")
        self._commit.stop()
        self._waiters.wake_all()

    async def room(self, *sizes: int) -> None:
        """Return once submissions of *sizes* bytes would not be refused with `OverloadedError`.

        They are to be made at once. Of what is larger than all that may be pending, the first one
        would not be: nothing is pending then. Returns at once where the store is closed. Others may
        take the room before a task that waited runs again: ask again where a submission is refused
        all the same.
        """
        while not self._commit.has_room(*sizes) and self._refusal is None:
            await self._waiters.wait(_ROOM)

    # Asking --------------------------------------------------------------------------------------

    async def number(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number, once nothing is pending for it (rules D2, S2)."""
        self._check_open()
        while self._pending.last_pending(
            segment, writer.bytes
        ) is not None or self._pending.existence_is_pending(segment):
            await self._waiters.wait(segment)
            self._check_open()
        return self._index.number(self._durable(segment), writer.bytes)

    async def wait_if_ending(self, segment: str) -> bool:
        """Return False at once unless a seal or deletion of *segment* is pending.

        If it is, return True once it is durable or has failed. A request that was refused because
        of it should be tried again then: a refusal must rest on durable state (rule D2).
        """
        self._check_open()
        if not self._pending.end_is_pending(segment):
            return False
        while self._pending.end_is_pending(segment):
            await self._waiters.wait(segment)
            self._check_open()
        return True

    def attribute(self, segment: str, attribute: UUID) -> int:
        """Return the durable value of an attribute; `ABSENT` if it has none."""
        return self._index.number(self._durable(segment), attribute.bytes)

    def info(self, segment: str) -> SegmentInfo | None:
        """Return the durable state of *segment*; None if it does not exist."""
        durable = self._index.by_name.get(segment)
        return durable.info() if durable is not None else None

    def segments(self, prefix: str = "") -> list[str]:
        """Return the names of the durable segments that begin with *prefix*, oldest first."""
        return [name for name in self._index.by_name if name.startswith(prefix)]

    def append_at(self, segment: str, offset: int) -> Appended:
        """Return the append that the byte at *offset*, in [start, length) of *segment*, belongs to.

        Raises `SegmentTruncatedError`, `StorageError`.
        """
        extent = next(self.extents(segment, offset))
        try:
            time_ms = self._reader.read_time_ms(extent)
        except StoreDamagedError:
            time_ms = None
        return Appended(extent.offset, extent.length, time_ms)

    def extents(self, segment: str, offset: int) -> Iterator[Extent]:
        """Yield the appends from `append_at` on; raises the same. Use the iterator up at once."""
        self._check_open()
        durable = self._durable(segment)
        if not durable.start <= offset < durable.length:
            raise SegmentTruncatedError(segment, durable.start)
        return durable.extents(offset)

    def read(
        self, segment: str, offset: int, limit: int, *, check: bool = True, most: int | None = None
    ) -> bytes:
        """Return up to *limit* durable bytes from *offset*; b"" at the segment's end or beyond.

        The bytes are checked against their CRC unless *check* is False. With *most*, at most that
        many appends are read. Reads on the event loop, usually from the page cache. Raises
        `SegmentTruncatedError` below the segment's start, and `StoreDamagedError`, which concerns
        this place only.
        """
        return b"".join(self.read_parts(segment, offset, limit, check=check, most=most))

    def read_parts(
        self, segment: str, offset: int, limit: int, *, check: bool = True, most: int | None = None
    ) -> list[Part]:
        """Return the same bytes uncopied, one part per append.

        The parts keep buffers around them in memory, so drop them soon.
        """
        if offset < 0 or limit < 0:
            raise ValueError("offset and limit can't be negative")
        self._check_open()
        durable = self._durable(segment)
        if offset < durable.start:
            raise SegmentTruncatedError(segment, durable.start)
        return self._reader.read(durable, offset, limit, check=check, most=most)

    def read_appends(self, segment: str, offset: int, limit: int) -> list[tuple[int, Part]]:
        """Return the same parts, each with the time of its append (ms since 1970).

        For readers to whom the time belongs to the data. Raises what `read` raises.
        """
        self._check_open()
        durable = self._durable(segment)
        if offset < durable.start:
            raise SegmentTruncatedError(segment, durable.start)
        return self._reader.read_appends(durable, offset, limit)

    def follow_tail(self, segment: str, offset: int) -> None:
        """Note that a remote reader reads *segment* at *offset*.

        Near the segment's end, the next appends are kept in memory for that reader.
        """
        if (durable := self._index.by_name.get(segment)) is not None:
            self._reader.follow_tail(durable, offset)

    async def wait_for_data(self, segment: str, offset: int, timeout: float) -> bool:
        """Return True once *segment* is longer than *offset* or sealed.

        False after *timeout* seconds. Raises `NoSuchSegmentError` once it is gone.
        """
        try:
            async with asyncio.timeout(timeout):
                while True:
                    durable = self._durable(segment)
                    if durable.length > offset or durable.sealed:
                        return True
                    self._check_open()
                    await self._waiters.wait(segment)
        except TimeoutError:
            return False

    def watch(self, segment: str) -> "asyncio.Future[None]":
        """Return a future that is done at the next change of *segment*, or when the store closes.

        The segment need not exist. Call `unwatch` for a future that is no longer awaited. Raises
        `StorageError`, `TransientError` like all methods.
        """
        self._check_open()
        return self._waiters.watch(segment)

    def unwatch(self, segment: str, watch: "asyncio.Future[None]") -> None:
        """Cancel a future that `watch` returned for *segment*."""
        self._waiters.unwatch(segment, watch)

    # ---------------------------------------------------------------------------------------------

    def _durable(self, segment: str) -> SegmentIndex:
        durable = self._index.by_name.get(segment)
        if durable is None:
            raise NoSuchSegmentError(segment)
        return durable

    def _has_other_work(self) -> bool:
        return self._log.rolls != self._rolls or self._reclaimer.due

    async def _do_other_work(self) -> bool:
        """Write the index after a new log file was begun, and reclaim old files."""
        if self._log.rolls != self._rolls:
            self._rolls = self._log.rolls
            await self._checkpoint.write()
        return await self._reclaimer.reclaim_step()

    def _on_durable(self, group: Sequence[PendingWrite]) -> None:
        touched: dict[str, None] = {}
        for write in group:
            entry = write.entry
            if entry.kind == CREATE:  # its name is in the state; `apply_entry` has only the number
                self._index.create_segment(entry.segment, write.state.name, entry.time_ms)
            else:
                self._index.apply_entry(
                    entry, entry.place, b"".join(entry.parts) if entry.kind == MERGE else b""
                )
                if entry.kind == APPEND:
                    self._reader.on_committed(
                        self._index.by_number[entry.segment],
                        entry.place,
                        entry.time_ms,
                        entry.parts,
                    )
            self._pending.remove_durable(write)
            write.resolve()
            touched[write.state.name] = None
            if write.source is not None:
                touched[write.source.name] = None
        for segment in touched:
            self._waiters.wake(segment)
        self._waiters.wake(_ROOM)

    def _on_failed(self, lost: Sequence[PendingWrite], reason: LogdriveError) -> None:
        self._pending.discard_all()
        if isinstance(reason, StorageError):
            self._refusal = reason
        for write in lost:
            write.reject(reason)
        self._waiters.wake_all()


__all__ = ["SegmentInfo", "Store"]
