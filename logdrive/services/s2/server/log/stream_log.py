"""One open S2 stream: a segment of the store, numbered and dated."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from random import Random

import structlog

from logdrive.errors import LogdriveError, TransientError
from logdrive.host.clock import Clock
from logdrive.services.s2.server.log.appender import AppendChain, LogAppender, as_s2_error
from logdrive.services.s2.server.log.checkpoint import Checkpoints, IndexSnapshot
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.encryption import check_key
from logdrive.services.s2.server.log.hot import ParsedAppend, of_input
from logdrive.services.s2.server.log.positions import Position
from logdrive.services.s2.server.log.reading import Reading, start_of
from logdrive.services.s2.server.log.recover import begin_at, renumber, restore
from logdrive.services.s2.server.log.view import View, appended_from
from logdrive.store.engine import SegmentInfo, Store
from logdrive.store.errors import NoSuchSegmentError
from logdrive.wire.s2.errors import unavailable
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import AppendAck, AppendInput, StreamPosition

_SAVE_ROWS = 64
"""Rows of the index after which it is written; a start walks over what came after that."""
_RETRY_SECONDS = 1.0


class StreamLog:
    """One open stream.

    All methods may be called from any task of the store's event loop. What they raise is `S2Error`
    alone, except for `open`.
    """

    @classmethod
    async def open(
        cls,
        store: Store,
        segment: str,
        *,
        clock: Clock,
        random: Random,
        settings: Callable[[], LogSettings],
    ) -> "StreamLog":
        """Open the stream that is *segment*; what is not in its index is walked over.

        *settings* is asked at each append and read. Raises `NoSuchSegmentError`, `StorageError`,
        and `NotEventsError` where the segment has no events.
        """
        log = cls(store, segment, clock=clock, random=random, settings=settings)
        await log._restore()
        return log

    def __init__(
        self,
        store: Store,
        segment: str,
        *,
        clock: Clock,
        random: Random,
        settings: Callable[[], LogSettings],
    ) -> None:
        self.segment = segment
        # those that are open
        self.readings: set[Reading] = set()
        # contexts of `in_use` that are open
        self._users = 0
        self._store = store
        self._clock = clock
        self._random = random
        self._settings = settings
        self._view = View(store, segment)
        self._checkpoints = Checkpoints(store, segment)
        self._appender = LogAppender(
            store,
            segment,
            self._view,
            clock=clock,
            settings=settings,
            sync=self._sync,
            on_progress=self._on_progress,
        )
        # where the first record is, once it was looked up
        self._first = self._view.rows.first
        # an offset where the view ended once, and the events that the store counted up to there
        self._counted = (0, 0)
        # of the index as it was written last: where it ends, its count of rows, and whether the
        # store's count agreed
        self._saved = (0, 1, True)
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
        """The stream as far as it is indexed; for readings."""
        return self._view

    @property
    def is_idle(self) -> bool:
        """Whether nobody reads or appends, or has a session in which they may."""
        return (
            not self.readings and not self._users and self._appender.is_idle and self._task is None
        )

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the stream open during the context, in which appends may come at any time."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    def tail(self) -> StreamPosition:
        """Return the tail of what is durable and indexed; after `sync`, of all that is durable."""
        return self._view.tail

    @property
    def first_retained(self) -> StreamPosition:
        """The number of the first record that is not deleted; the time of the one before it."""
        first = self.first_position()
        return StreamPosition(first.seq_num, first.timestamp)

    def first_position(self) -> Position:
        """Return where the first record is that is not deleted. Raises `StorageError`."""
        rows, trim_point = self._view.rows, self._view.trim_point
        if rows.first.seq_num >= trim_point:
            return rows.first
        if self._first.seq_num != trim_point:
            self._first = self._view.position_of(trim_point)
        return self._first

    @property
    def is_empty(self) -> bool:
        """Whether the stream has no records: never any, or all were deleted."""
        first = max(self._view.rows.first.seq_num, self._view.trim_point)
        return first >= self._view.end.seq_num

    @property
    def last_write_ms(self) -> int:
        """When the segment was changed last (ms since 1970); a truncation is a change, too."""
        info = self._store.info(self.segment)
        return info.modified_ms if info is not None else 0

    async def sync(self) -> None:
        """Return once all that is durable now is indexed, by any writer."""
        try:
            await self._sync()
        except LogdriveError as error:
            raise as_s2_error(error) from error

    # Use -----------------------------------------------------------------------------------------

    def submit(
        self,
        append: AppendInput | ParsedAppend,
        *,
        key: bytes | None = None,
        session: AppendChain | None = None,
    ) -> "asyncio.Future[AppendAck]":
        """Append records as a whole, after everything submitted before.

        The future is done once they are durable, in the order of `submit`. It fails with `S2Error`:
        412 where a condition is not met by what was submitted before, 502 where nothing was done,
        500 where that is not known. Appends of one *session* are not done after one of them failed.
        Cancelling the future undoes nothing. While the store has no room, appends wait here: let
        few be under way. Raises `S2Error`, 422, for an input that breaks a limit.
        """
        if self._closed:
            raise unavailable("the stream was closed")
        parsed = append if isinstance(append, ParsedAppend) else of_input(append)
        return self._appender.submit(parsed, key, session)

    async def read(
        self, query: ReadQuery, *, unary: bool = False, key: bytes | None = None
    ) -> Reading:
        """Return a reading that begins where *query* says; close it at the end.

        Raises `S2Error`: 416 where nothing is written and *query* does not wait, 400 for a key that
        is missing.
        """
        check_key(self._settings().cipher, key)
        await self.sync()
        if unary:
            query = query.unary()
        try:
            begin = start_of(self, query)
        except LogdriveError as error:
            raise as_s2_error(error) from error
        return Reading(
            self, self._store, begin, query, unary, key, clock=self._clock, random=self._random
        )

    async def cut_appended_before(self, time_ms: int) -> None:
        """Delete records of appends before *time_ms* (ms since 1970): for retention.

        Late, never early: at most some thousand appends go at once, and none that may be younger.
        """
        await self.sync()
        try:
            cut = self._view.position_before(
                appended_from(self._store, self.segment, self._view, time_ms)
            )
            self._view.trim_point = max(self._view.trim_point, cut.seq_num)
            await self._truncate()
        except LogdriveError as error:
            raise as_s2_error(error) from error

    async def close(self) -> None:
        """Answer what was submitted, write the index, and end all readings."""
        self._closed = True
        for reading in self.readings:
            reading.hurry()
        await self._appender.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            if self._store.info(self.segment) is not None:
                await self._truncate()
                # a short stream is soon walked over, if the store can tell its numbers besides
                short = len(self._view.rows) == 1 and self._events() == self._view.end.seq_num
                if not short and self._view.end.offset != self._saved[0]:
                    await self._save()
        except LogdriveError as error:
            self._warn("the index of a stream was not written", error)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def is_current(self) -> bool:
        """Whether it is open, and its segment still is the one that it was opened for."""
        info = self._store.info(self.segment)
        return (
            not self._closed
            and info is not None
            and self._store.incarnation(self.segment) == self._incarnation
        )

    async def delete_index(self) -> None:
        """Delete the stream's index: the stream is deleted."""
        await self._checkpoints.delete()

    # ---------------------------------------------------------------------------------------------

    async def _restore(self) -> None:
        checkpoint = self._checkpoints.load()
        await restore(self._store, self.segment, self._view, checkpoint)
        if checkpoint is not None:
            self._counted = (checkpoint.end.offset, checkpoint.events)
            agreed = checkpoint.events == checkpoint.end.seq_num
            self._saved = (checkpoint.end.offset, len(self._view.rows), agreed)
        await self._sync()
        agreed = self._events() == self._view.end.seq_num
        if checkpoint is None and (self._view.rows.first.offset or not agreed):
            await self._save()  # the numbers that are about to be shown
        self._on_progress(False)

    async def _sync(self) -> None:
        while True:
            if self._info().start > self._view.end.offset:
                await self._renumber()
            start = self._info().start
            if self._view.end.offset >= start > self._view.rows.first.offset:
                begin_at(self._store, self.segment, self._view, start)
            if not self._appender.settle():
                break
            await asyncio.sleep(0)
        self._on_progress(False)

    async def _renumber(self) -> None:
        """Go on behind what another face has truncated before it was indexed."""
        async with self._renumbering:
            end = self._view.end
            if self._info().start > end.offset:
                await renumber(self._store, self.segment, self._view, end, self._events())
                await self._save()

    def _info(self) -> SegmentInfo:
        info = self._store.info(self.segment)
        if info is None or self._store.incarnation(self.segment) != self._incarnation:
            raise NoSuchSegmentError(self.segment)
        return info

    def _on_progress(self, more: bool) -> None:
        if more or self._must_save() or self._must_truncate():
            self._start_task()

    def _events(self) -> int:
        """Return how many events the store counted up to the view's end; -1 if it is not known."""
        end, info = self._view.end.offset, self._store.info(self.segment)
        if info is not None and info.length == end:
            self._counted = (end, info.events)
        offset, events = self._counted
        return events if offset == end else -1

    def _must_save(self) -> bool:
        _, rows, agreed = self._saved
        events = self._events()
        # whether the store's count can be relied on: see `logdrive.services.s2.server.log.recover`
        turned = events >= 0 and (events == self._view.end.seq_num) != agreed
        return len(self._view.rows) - rows >= _SAVE_ROWS or turned

    def _must_truncate(self) -> bool:
        rows, info = self._view.rows, self._store.info(self.segment)
        return info is not None and (
            self._view.trim_point > rows.first.seq_num or info.start < rows.first.offset
        )

    def _start_task(self) -> None:
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._work(), name=f"s2 log {self.segment}")

    async def _work(self) -> None:
        """Index what is left, truncate, and write the index; what fails is tried again."""
        try:
            while True:
                try:
                    await self._sync()
                    await self._truncate()
                    if self._must_save():
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
                await self._write(whole=True)
                info = self._store.info(self.segment)
                if info is not None and info.start < first.offset:
                    await self._store.truncate(self.segment, first.offset)

    async def _save(self) -> None:
        async with self._saving:
            await self._write(whole=False)

    async def _write(self, *, whole: bool) -> None:
        view, rows = self._view, len(self._view.rows)
        checkpoint = IndexSnapshot(
            self._store.incarnation(self.segment),
            view.end,
            self._events(),
            view.token,
            view.trim_point,
            view.rows,
        )
        await self._checkpoints.write(checkpoint, whole=whole)
        agreed = checkpoint.events == checkpoint.end.seq_num
        self._saved = (checkpoint.end.offset, rows, agreed)

    def _warn(self, event: str, error: Exception) -> None:
        structlog.get_logger("logdrive.services.s2").warning(
            event, segment=self.segment, reason=str(error)
        )
