"""One open segment of the store, numbered and dated: what S2's and Iggy's faces share.

The view is made of two kinds of events. Own appends, which a face here handed to the store, are
added in order once they are durable; what others stored between them is walked over. Both give the
same numbers. The index is written behind the data (docs/adr/0024).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

import structlog

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.host.clock import Clock
from logdrive.services.numbering.appends import EncodedAppend, OwnAppend, behind
from logdrive.services.numbering.index_writer import IndexWriter
from logdrive.services.numbering.positions import Position
from logdrive.services.numbering.recover import begin_at, renumber, restore
from logdrive.services.numbering.times import appended_from
from logdrive.services.numbering.view import View
from logdrive.store.engine import SegmentInfo, Store
from logdrive.store.errors import NoSuchSegmentError

_RETRY_SECONDS: Final = 1.0


class NumberedSegment:
    """One open segment, for all tasks of the store's event loop, and all faces.

    Faces add a function to *on_settled*, which is called when own appends may have been settled.
    """

    @classmethod
    async def open(cls, store: Store, segment: str, *, clock: Clock) -> "NumberedSegment":
        """Open *segment*; what is not in its index is walked over.

        Raises `NoSuchSegmentError`, `StorageError`, and `NotEventsError` where it has no events.
        """
        numbered = cls(store, segment, clock=clock)
        await numbered._restore()
        return numbered

    def __init__(self, store: Store, segment: str, *, clock: Clock) -> None:
        self.segment = segment
        self.on_settled: list[Callable[[], None]] = []
        # contexts of `in_use` that are open
        self._users = 0
        self._store = store
        self._clock = clock
        self._view = View(store, segment)
        self._index = IndexWriter(store, segment, self._view)
        # handed to the store, and not settled yet
        self._own: deque[OwnAppend] = deque()
        # where everything handed over ends, where that is known
        self._end: Position | None = None
        # where the first record is, once it was looked up
        self._first = self._view.rows.first
        self._saving = asyncio.Lock()
        self._renumbering = asyncio.Lock()
        # tells the segment from a later one of the same name
        self._incarnation = store.incarnation(segment)
        # walks over what is left, truncates, and writes the index
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    # State ---------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """What is durable and indexed; after `sync`, all that is durable."""
        return self._view

    @property
    def is_idle(self) -> bool:
        """Whether no face uses it, and nothing is left to do."""
        return not self._users and not self._own and self._task is None

    @property
    def is_current(self) -> bool:
        """Whether it is open, and its segment still is the one that it was opened for."""
        info = self._store.info(self.segment)
        return (
            not self._closed
            and info is not None
            and self._store.incarnation(self.segment) == self._incarnation
        )

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the segment open during the context."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    def first_position(self) -> Position:
        """Return where the first record is that is not deleted. Raises `StorageError`."""
        rows, trim_point = self._view.rows, self._view.trim_point
        if rows.first.seq_num >= trim_point:
            return rows.first
        if self._first.seq_num != trim_point:
            self._first = self._view.position_of(trim_point)
        return self._first

    def appended_from(self, time_ms: int) -> int:
        """Return where the first append of *time_ms* (ms since 1970) or later begins, or the end.

        Raises `StorageError`.
        """
        begin, end = self.first_position().offset, self._view.end.offset
        return appended_from(self._store, self.segment, begin, end, time_ms)

    @property
    def is_empty(self) -> bool:
        """Whether it has no records: never any, or all were deleted."""
        first = max(self._view.rows.first.seq_num, self._view.trim_point)
        return first >= self._view.end.seq_num

    @property
    def last_write_ms(self) -> int:
        """When the segment was changed last (ms since 1970); a truncation is a change, too."""
        info = self._store.info(self.segment)
        return info.modified_ms if info is not None else 0

    # Appends -------------------------------------------------------------------------------------

    def submitted_end(self) -> Position | None:
        """Return the position behind everything that was handed to the store, by whomever.

        None while it is not known, since another face has something pending. Raises
        `NoSuchSegmentError`.
        """
        start = self._store.submitted_length(self.segment)
        if self._end is not None and self._end.offset == start:
            return self._end
        end = self._view.end
        for own in self._own:
            if own.start != end.offset:
                return None
            end = behind(end, own.append)
        return end if end.offset == start else None

    def ends_within_event(self) -> bool:
        """Return whether another writer has written a part of an event, after `settle`."""
        info = self._store.info(self.segment)
        return info is not None and self._view.end.offset < info.length and not self._own

    def submit(self, append: EncodedAppend, *, writer: UUID, time_ms: int) -> OwnAppend:
        """Hand *append* to the store; *time_ms* is when it came (ms since 1970).

        Raises what `Store.append` raises; nothing is stored then.
        """
        start, end = self._store.submitted_length(self.segment), self.submitted_end()
        stored = self._store.append(
            self.segment,
            append.events,
            writer=writer,
            expected=None,
            number=start + len(append.events),
            events=append.count,
            expected_offset=start,
            time_ms=time_ms,
        )
        own = OwnAppend(append, start, stored)
        self._own.append(own)
        self._end = None if end is None else behind(end, append)
        stored.add_done_callback(self._on_stored)
        return own

    def settle(self) -> bool:
        """Number own appends that are durable, and up to a piece of what others stored.

        Return whether more is left of it. Where it can't be read, own appends that lie behind it
        fail, and the error is raised.
        """
        try:
            return self._settle()
        except LogdriveError as error:
            self._fail_own(error)
            raise
        finally:
            for settled in self.on_settled:
                settled()

    async def sync(self) -> None:
        """Return once all that is durable now is numbered, by any writer.

        Raises `NoSuchSegmentError`, `StorageError`, `NotEventsError`.
        """
        while True:
            if self._info().start > self._view.end.offset:
                await self._renumber()
            start = self._info().start
            if self._view.end.offset >= start > self._view.rows.first.offset:
                begin_at(self._store, self.segment, self._view, start)
            if not self.settle():
                break
            await asyncio.sleep(0)
        self._on_progress(False)

    # Deletion ------------------------------------------------------------------------------------

    async def delete_before(self, seq_num: int) -> None:
        """Delete the records before *seq_num*, at most all; later ones keep their numbers.

        They are gone for readers once that is durable, and not before.
        """
        await self.sync()
        view = self._view
        cut = min(seq_num, view.end.seq_num)
        if cut > max(view.trim_point, view.rows.first.seq_num):
            async with self._saving:
                await self._index.write(trim_point=cut)
                view.trim_point = max(view.trim_point, cut)
        await self._truncate()

    async def cut_appended_before(self, time_ms: int) -> None:
        """Delete records of appends before *time_ms* (ms since 1970): for retention.

        Late, never early: whole appends go, and none that may be younger.
        """
        await self.sync()
        await self.delete_before(self._view.position_before(self.appended_from(time_ms)).seq_num)

    # Use -----------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Write the index, once no face appends any more."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            if self._store.info(self.segment) is not None:
                await self._truncate()
                # a short stream is soon walked over, if the store can tell its numbers besides
                short = len(self._view.rows) == 1 and self._index.count_agrees()
                if not short and not self._index.is_complete:
                    await self._save()
        except LogdriveError as error:
            self._warn("the index of a stream was not written", error)

    # ---------------------------------------------------------------------------------------------

    async def _restore(self) -> None:
        checkpoint = self._index.load()
        await restore(self._store, self.segment, self._view, checkpoint)
        if checkpoint is not None:
            self._index.on_restored(checkpoint)
        await self.sync()
        agrees = self._index.count_agrees()
        if checkpoint is None and (self._view.rows.first.offset or not agrees):
            await self._save()  # the numbers that are about to be shown
        self._on_progress(False)

    async def _renumber(self) -> None:
        """Go on behind what another face has truncated before it was indexed."""
        async with self._renumbering:
            end = self._view.end
            if self._info().start > end.offset:
                await renumber(self._store, self.segment, self._view, end, self._index.events())
                await self._save()

    def _info(self) -> SegmentInfo:
        info = self._store.info(self.segment)
        if info is None or self._store.incarnation(self.segment) != self._incarnation:
            raise NoSuchSegmentError(self.segment)
        return info

    def _on_stored(self, _: "asyncio.Future[int]") -> None:
        try:
            more = self.settle()
        except LogdriveError:
            return  # own appends have failed with it
        self._on_progress(more)

    def _settle(self) -> bool:
        view = self._view
        while self._own:
            own = self._own[0]
            stored = own.stored
            if not stored.done():
                break
            if stored.cancelled() or stored.exception() is not None:
                # the store failed everything that was pending
                self._end = None
                own.error = StorageError(f"the store did not take it: {stored.exception()}")
                self._own.popleft()
                continue
            if view.end.offset < own.start:
                if view.add_stored(own.start):
                    return True
                if view.end.offset < own.start:
                    raise StorageError(f"an append to {self.segment} is within another record")
                continue
            own.first, own.end = view.add_own(own.append), view.end
            self._own.popleft()
        info = self._store.info(self.segment)
        return info is not None and view.add_stored(info.length)

    def _fail_own(self, error: LogdriveError) -> None:
        self._end = None
        own, self._own = self._own, deque()
        for one in own:
            one.error = error

    # The index -----------------------------------------------------------------------------------

    def _on_progress(self, more: bool) -> None:
        if more or self._index.is_due or self._must_truncate():
            self._start_task()

    def _must_truncate(self) -> bool:
        rows, info = self._view.rows, self._store.info(self.segment)
        return info is not None and (
            self._view.trim_point > rows.first.seq_num or info.start < rows.first.offset
        )

    def _start_task(self) -> None:
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._work(), name=f"numbers {self.segment}")

    async def _work(self) -> None:
        """Index what is left, truncate, and write the index; what fails is tried again."""
        try:
            while True:
                try:
                    await self.sync()
                    await self._truncate()
                    if self._index.is_due:
                        await self._save()
                    return
                except TransientError as error:
                    self._warn("a stream's index waits", error)
                    await self._clock.sleep(_RETRY_SECONDS)
                except NoSuchSegmentError:
                    return
                except LogdriveError as error:
                    self._warn("a stream can't be indexed", error)
                    return
        finally:
            self._task = None

    async def _truncate(self) -> None:
        """Truncate the segment to the trim point, once the index can tell the numbers after it."""
        async with self._saving:
            while self._must_truncate():
                first = self.first_position()
                self._view.rows.begin_at(first)
                await self._index.write(whole=True)
                info = self._store.info(self.segment)
                if info is not None and info.start < first.offset:
                    await self._store.truncate(self.segment, first.offset)

    async def _save(self) -> None:
        async with self._saving:
            await self._index.write()

    def _warn(self, event: str, error: Exception) -> None:
        structlog.get_logger("logdrive.services.numbering").warning(
            event, segment=self.segment, reason=str(error)
        )
