"""Appends to one stream: conditions, order, and acknowledgements.

An append goes through two queues, both in the order of `submit`. In *waiting* it is not decided. It
is then either handed to the store, whose number conditions are met by everything handed over before
it, or refused; and goes to *decided*. From there it is answered once it is durable and everything
before it is answered. A refusal rests on what was handed over before, so it fails if that fails.

Other faces append to the same segment. The number of an append that no condition depends on is
known when it is durable; one with `match_seq_num` waits until nothing of others is pending.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid5

from logdrive.errors import LogdriveError, StorageError
from logdrive.host.clock import Clock
from logdrive.model.identity import NAMESPACE
from logdrive.services.s2.server.log.encoding import EncodedAppend, LogSettings, encode_append
from logdrive.services.s2.server.log.hot import ParsedAppend
from logdrive.services.s2.server.log.positions import Position
from logdrive.services.s2.server.log.view import View, behind
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError, OverloadedError, SegmentSealedError
from logdrive.wire.s2.errors import (
    FencingTokenMismatchError,
    S2Error,
    SeqNumMismatchError,
    hot_server,
    invalid,
    storage,
    unavailable,
)
from logdrive.wire.s2.records import AppendAck, Fence, StreamPosition

_TRIES: Final = 32
"""Changes of the segment that an append with `match_seq_num` waits for others to be still."""


class AppendChain:
    """Appends of which none is done once one before it was refused, or has failed."""

    def __init__(self) -> None:
        self.error: S2Error | None = None


@dataclass(slots=True, eq=False)
class _Entry:
    """One append; *answer* is the submitter's future, who may have cancelled it."""

    append: ParsedAppend
    key: bytes | None
    session: AppendChain | None
    answer: "asyncio.Future[AppendAck]"
    # how often it waited for others to be still
    tries: int = 0
    # once it was handed to the store: its events, where they begin, and the store's answer
    encoded: EncodedAppend | None = None
    start: int = -1
    stored: "asyncio.Future[int] | None" = None
    refusal: S2Error | None = None

    def refuse(self, error: S2Error) -> None:
        self.refusal = error
        if self.session is not None and self.session.error is None:
            self.session.error = error

    def reject(self, error: S2Error) -> None:
        if self.session is not None and self.session.error is None:
            self.session.error = error
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # no warning if the submitter dropped the future


Wait = Callable[[], Awaitable[object]]


class LogAppender:
    """The appends to the segment of *view*, and what others append there.

    *settings* returns what is in force. *sync* waits until the view has all that is durable;
    *on_progress* is called when it has more, with whether more than a piece is left.
    """

    def __init__(
        self,
        store: Store,
        segment: str,
        view: View,
        *,
        clock: Clock,
        settings: Callable[[], LogSettings],
        sync: Wait,
        on_progress: Callable[[bool], None],
    ) -> None:
        self._store = store
        self._segment = segment
        self._view = view
        self._clock = clock
        self._settings = settings
        self._sync = sync
        self._on_progress = on_progress
        self._writer = uuid5(NAMESPACE, f"s2 {segment}")
        # not decided yet; not answered yet
        self._waiting: deque[_Entry] = deque()
        self._decided: deque[_Entry] = deque()
        # where everything handed over ends, where that is known
        self._end: Position | None = None
        # the fencing token with everything handed over
        self._token = ""
        # decides what could not be decided at once
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """Whether everything that was submitted is answered."""
        return not self._waiting and not self._decided

    def submit(
        self, append: ParsedAppend, key: bytes | None, session: AppendChain | None
    ) -> "asyncio.Future[AppendAck]":
        """Submit *append*; see `StreamLog.submit`."""
        if self._closed:
            raise unavailable("the stream was closed")
        answer: asyncio.Future[AppendAck] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Entry(append, key, session, answer))
        if self._task is None:
            wait = self._decide_ready()
            if wait is not None:
                name = f"s2 append {self._segment}"
                self._task = asyncio.create_task(self._decide_waiting(wait), name=name)
        return answer

    async def close(self) -> None:
        """Accept nothing more, and return once everything is answered."""
        self._closed = True
        while not self.is_idle:
            stored = [entry.stored for entry in self._decided if entry.stored is not None]
            if self._task is not None:
                await asyncio.wait([self._task])
            elif stored:
                await asyncio.wait(stored)
            try:
                await self._sync()
            except LogdriveError as error:
                self._fail_all(as_s2_error(error))

    # Deciding ------------------------------------------------------------------------------------

    def _decide_ready(self) -> Wait | None:
        """Decide what can be decided now; return what the next append has to wait for."""
        while self._waiting:
            entry = self._waiting[0]
            try:
                wait = self._decide(entry)
            except LogdriveError as error:
                entry.refuse(as_s2_error(error))
                wait = None
            if wait is not None:
                return wait
            self._decided.append(self._waiting.popleft())
        if self._decided and self._decided[0].stored is None:
            with contextlib.suppress(LogdriveError):  # everything was answered with it
                self.settle()
        return None

    async def _decide_waiting(self, wait: Wait | None) -> None:
        """Decide everything that waits, in order."""
        try:
            while wait is not None:
                try:
                    await wait()
                except LogdriveError as error:
                    refused = self._waiting.popleft()
                    refused.refuse(as_s2_error(error))
                    self._decided.append(refused)
                wait = self._decide_ready()
        finally:
            self._task = None

    def _decide(self, entry: _Entry) -> Wait | None:
        """Hand the append to the store; return what it has to wait for, if it can't be yet.

        The order of the checks is S2's. Raises `S2Error` if it is refused.
        """
        if self.settle():
            return self._sync
        if entry.session is not None and entry.session.error is not None:
            raise entry.session.error
        info = self._store.info(self._segment)
        if info is None:
            raise unavailable("the stream was deleted")
        if self._view.end.offset < info.length and not self._handed_over():
            raise hot_server("another writer has written a part of a record")

        append = entry.append
        token = self._token if self._handed_over() else self._view.token
        if append.fencing_token is not None and append.fencing_token != token:
            raise FencingTokenMismatchError(token)
        start = self._submitted_length()
        end = self._position_at(start)
        if append.match_seq_num is not None:
            if end is None:
                return self._others_are_still(entry)
            if append.match_seq_num != end.seq_num:
                raise SeqNumMismatchError(end.seq_num)

        now_ms = self._clock.now_ms()
        floor = 0 if end is None else end.timestamp
        encoded = encode_append(append, now_ms, self._settings(), entry.key, floor=floor)
        try:
            entry.stored = self._append(encoded, start, now_ms)
        except OverloadedError as error:
            size = error.size
            return lambda: self._store.room(size)
        entry.encoded, entry.start = encoded, start
        self._end = None if end is None else behind(end, encoded)
        self._token = token
        for _, command in encoded.commands:
            if isinstance(command, Fence):
                self._token = command.token
        entry.stored.add_done_callback(self._on_stored)
        return None

    def _append(self, encoded: EncodedAppend, start: int, now_ms: int) -> "asyncio.Future[int]":
        try:
            return self._store.append(
                self._segment,
                encoded.events,
                writer=self._writer,
                expected=None,
                number=start + len(encoded.events),
                events=encoded.count,
                expected_offset=start,
                time_ms=now_ms,
            )
        except OverloadedError:
            raise
        except LogdriveError as error:
            raise as_s2_error(error) from error

    def _submitted_length(self) -> int:
        try:
            return self._store.submitted_length(self._segment)
        except LogdriveError as error:
            raise as_s2_error(error) from error

    def _handed_over(self) -> bool:
        return any(entry.stored is not None for entry in self._decided)

    def _position_at(self, start: int) -> Position | None:
        """Return the position of *start*, the end of everything that was handed to the store.

        None while it is not known, since another face has something pending before it.
        """
        if self._end is not None and self._end.offset == start:
            return self._end
        end = self._view.end
        for entry in self._decided:
            if entry.encoded is not None:
                if entry.start != end.offset:
                    return None
                end = behind(end, entry.encoded)
        return end if end.offset == start else None

    def _others_are_still(self, entry: _Entry) -> Wait:
        entry.tries += 1
        if entry.tries > _TRIES:
            raise hot_server("others append to the stream all the time")

        async def wait() -> None:
            change = self._store.watch(self._segment)
            try:
                await self._sync()
                if not self._is_still():
                    await change
            finally:
                self._store.unwatch(self._segment, change)

        return wait

    def _is_still(self) -> bool:
        return self._position_at(self._submitted_length()) is not None

    # Answering -----------------------------------------------------------------------------------

    def _on_stored(self, _: "asyncio.Future[int]") -> None:
        try:
            more = self.settle()
        except LogdriveError:
            return  # all were answered with it
        self._on_progress(more)

    def settle(self) -> bool:
        """Answer what can be answered, and add up to a piece of what others stored to the view.

        Return whether more is left of it. Where it can't be read, appends that lie behind it are
        answered with an error.
        """
        try:
            return self._settle()
        except LogdriveError as error:
            self._fail_all(as_s2_error(error))
            self._end = None
            raise

    def _settle(self) -> bool:
        decided, view = self._decided, self._view
        while decided:
            entry = decided[0]
            if entry.refusal is not None:
                decided.popleft().reject(entry.refusal)
                continue
            stored, encoded = entry.stored, entry.encoded
            assert stored is not None
            assert encoded is not None
            if not stored.done():
                break
            if stored.cancelled() or stored.exception() is not None:
                # the store failed everything that was pending
                self._fail_all(storage(f"the store did not take it: {stored.exception()}"))
                return True
            if view.end.offset < entry.start:
                if view.add_stored(entry.start):
                    return True
                if view.end.offset < entry.start:
                    raise StorageError(f"an append to {self._segment} is within another record")
                continue
            self._acknowledge(decided.popleft(), encoded)
        info = self._store.info(self._segment)
        return info is not None and view.add_stored(info.length)

    def _acknowledge(self, entry: _Entry, encoded: EncodedAppend) -> None:
        first = self._view.add_own(encoded)
        if not entry.answer.done():
            end = self._view.tail
            start = StreamPosition(first.seq_num, first.timestamp)
            entry.answer.set_result(AppendAck(start, end, end))

    def _fail_all(self, error: S2Error) -> None:
        """Fail everything that was handed over, and the refusals that rest on it."""
        self._end = None
        decided, self._decided = self._decided, deque()
        for entry in decided:
            entry.reject(error)


def as_s2_error(error: LogdriveError) -> S2Error:
    """Return what clients are told of an error of the store."""
    if isinstance(error, S2Error):
        return error
    if isinstance(error, NoSuchSegmentError):
        return unavailable("the stream was deleted")
    if isinstance(error, SegmentSealedError):
        return invalid("the stream is sealed: it was scaled, or ended, through another protocol")
    return storage(str(error))
