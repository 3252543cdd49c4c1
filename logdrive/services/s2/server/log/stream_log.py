"""One open S2 stream: a numbered segment of the store, with S2's appends and readings."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from random import Random

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.services.numbering.positions import Position
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.services.numbering.view import View
from logdrive.services.s2.server.log.appender import AppendChain, LogAppender, as_s2_error
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.encryption import check_key
from logdrive.services.s2.server.log.hot import ParsedAppend, of_input
from logdrive.services.s2.server.log.reading import Reading, start_of
from logdrive.store.engine import Store
from logdrive.wire.s2.errors import unavailable
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import AppendAck, AppendInput, StreamPosition


class StreamLog:
    """One open stream.

    All methods may be called from any task of the store's event loop. What they raise is `S2Error`
    alone.
    """

    def __init__(
        self,
        store: Store,
        numbered: NumberedSegment,
        *,
        clock: Clock,
        random: Random,
        settings: Callable[[], LogSettings],
    ) -> None:
        """Take *numbered*, and keep it open until `close`; *settings* is asked at each use."""
        self.segment = numbered.segment
        # those that are open
        self.readings: set[Reading] = set()
        # contexts of `in_use` that are open
        self._users = 0
        self._store = store
        self._clock = clock
        self._random = random
        self._settings = settings
        self._numbered = numbered
        self._appender = LogAppender(store, numbered, clock=clock, settings=settings)
        self._hold = contextlib.ExitStack()
        self._hold.enter_context(numbered.in_use())
        numbered.on_settled.append(self._appender.answer)
        self._hold.callback(numbered.on_settled.remove, self._appender.answer)
        self._closed = False

    # State ---------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The stream as far as it is indexed; for readings."""
        return self._numbered.view

    @property
    def is_idle(self) -> bool:
        """Whether nobody reads or appends, or has a session in which they may."""
        return not self.readings and not self._users and self._appender.is_idle

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
        return self._numbered.view.tail

    @property
    def first_retained(self) -> StreamPosition:
        """The number of the first record that is not deleted; the time of the one before it."""
        first = self.first_position()
        return StreamPosition(first.seq_num, first.timestamp)

    def first_position(self) -> Position:
        """Return where the first record is that is not deleted. Raises `StorageError`."""
        return self._numbered.first_position()

    @property
    def is_empty(self) -> bool:
        """Whether the stream has no records: never any, or all were deleted."""
        return self._numbered.is_empty

    @property
    def last_write_ms(self) -> int:
        """When the segment was changed last (ms since 1970); a truncation is a change, too."""
        return self._numbered.last_write_ms

    async def sync(self) -> None:
        """Return once all that is durable now is indexed, by any writer."""
        try:
            await self._numbered.sync()
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

    async def close(self) -> None:
        """Answer what was submitted, end all readings, and let go of the segment."""
        self._closed = True
        for reading in self.readings:
            reading.hurry()
        await self._appender.close()
        self._hold.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def is_current(self) -> bool:
        """Whether it is open, and its segment still is the one that it was opened for."""
        return not self._closed and self._numbered.is_current
