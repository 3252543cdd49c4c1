"""Appends to one stream: conditions, order, and acknowledgements.

An append goes through two queues, both in the order of `submit`. In *waiting* it is not decided. It
is then either handed to the store, whose number conditions are met by everything handed over before
it, or refused; and goes to *decided*. From there it is answered once it is durable and everything
before it is answered. A refusal rests on what was handed over before, so it fails if that fails.

Other faces append to the same segment. The number of an append that no condition depends on is
known when it is durable; one with `match_seq_num` waits until nothing of others is pending.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid5

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.model.identity import NAMESPACE
from logdrive.services.numbering.appends import OwnAppend
from logdrive.services.numbering.decisions import DecisionQueue, Wait
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.services.s2.server.log.encoding import LogSettings, encode_append
from logdrive.services.s2.server.log.hot import ParsedAppend
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
class _QueuedAppend:
    """One append; *answer* is the submitter's future, who may have cancelled it."""

    append: ParsedAppend
    key: bytes | None
    session: AppendChain | None
    answer: "asyncio.Future[AppendAck]"
    # how often it waited for others to be still
    tries: int = 0
    # once it was handed to the store
    own: OwnAppend | None = None
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


class LogAppender:
    """S2's appends to the segment *numbered*; *settings* returns what is in force.

    `answer` is to be called when appends may have been settled.
    """

    def __init__(
        self,
        store: Store,
        numbered: NumberedSegment,
        *,
        clock: Clock,
        settings: Callable[[], LogSettings],
    ) -> None:
        self._store = store
        self._numbered = numbered
        self._segment = segment = numbered.segment
        self._clock = clock
        self._settings = settings
        self._writer = uuid5(NAMESPACE, f"s2 {segment}")
        # not answered yet
        self._decided: deque[_QueuedAppend] = deque()
        # the fencing token with everything handed over
        self._token = ""
        self._waiting: DecisionQueue[_QueuedAppend] = DecisionQueue(
            f"s2 append {segment}",
            decide=self._decide,
            decided=self._decided.append,
            refused=self._refuse,
            idle=self.answer,
        )
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """Whether everything that was submitted is answered."""
        return self._waiting.is_empty and not self._decided

    def submit(
        self, append: ParsedAppend, key: bytes | None, session: AppendChain | None
    ) -> "asyncio.Future[AppendAck]":
        """Submit *append*; see `StreamLog.submit`."""
        if self._closed:
            raise unavailable("the stream was closed")
        answer: asyncio.Future[AppendAck] = asyncio.get_running_loop().create_future()
        self._waiting.put(_QueuedAppend(append, key, session, answer))
        return answer

    async def close(self) -> None:
        """Accept nothing more, and return once everything is answered."""
        self._closed = True
        while not self.is_idle:
            await self._waiting.join()
            stored = [entry.own.stored for entry in self._decided if entry.own is not None]
            if stored:
                await asyncio.wait(stored)
            try:
                await self._numbered.sync()
            except LogdriveError as error:
                self._fail_all(as_s2_error(error))

    # Deciding ------------------------------------------------------------------------------------

    def _refuse(self, entry: _QueuedAppend, error: LogdriveError) -> None:
        """Refuse *entry*, once what that rests on is durable."""
        entry.refuse(as_s2_error(error))
        self._decided.append(entry)

    def _decide(self, entry: _QueuedAppend) -> Wait | None:
        """Hand the append to the store; return what it has to wait for, if it can't be yet.

        The order of the checks is S2's. Raises `S2Error` if it is refused.
        """
        if self._numbered.settle():
            return self._numbered.sync
        if entry.session is not None and entry.session.error is not None:
            raise entry.session.error
        info = self._store.info(self._segment)
        if info is None:
            raise unavailable("the stream was deleted")
        if self._numbered.ends_within_event():
            raise hot_server("another writer has written a part of a record")

        append = entry.append
        token = self._token if self._handed_over() else self._numbered.view.token
        if append.fencing_token is not None and append.fencing_token != token:
            raise FencingTokenMismatchError(token)
        end = self._numbered.submitted_end()
        if append.match_seq_num is not None:
            if end is None:
                return self._others_are_still(entry)
            if append.match_seq_num != end.seq_num:
                raise SeqNumMismatchError(end.seq_num)

        now_ms = self._clock.now_ms()
        floor = 0 if end is None else end.timestamp
        encoded = encode_append(append, now_ms, self._settings(), entry.key, floor=floor)
        try:
            entry.own = self._numbered.submit(encoded, writer=self._writer, time_ms=now_ms)
        except OverloadedError as error:
            size = error.size
            return lambda: self._store.room(size)
        self._token = token
        for _, command in encoded.commands:
            if isinstance(command, Fence):
                self._token = command.token
        return None

    def _handed_over(self) -> bool:
        return any(entry.own is not None for entry in self._decided)

    def _others_are_still(self, entry: _QueuedAppend) -> Wait:
        entry.tries += 1
        if entry.tries > _TRIES:
            raise hot_server("others append to the stream all the time")

        async def wait() -> None:
            change = self._store.watch(self._segment)
            try:
                await self._numbered.sync()
                if self._numbered.submitted_end() is None:
                    await change
            finally:
                self._store.unwatch(self._segment, change)

        return wait

    # Answering -----------------------------------------------------------------------------------

    def answer(self) -> None:
        """Answer what is settled, and the refusals that rest on it."""
        decided = self._decided
        while decided:
            entry = decided[0]
            if entry.refusal is not None:
                decided.popleft().reject(entry.refusal)
                continue
            own = entry.own
            assert own is not None
            if own.error is not None:
                self._fail_all(as_s2_error(own.error))
                return
            if own.first is None or own.end is None:
                return
            decided.popleft()
            if not entry.answer.done():
                start = StreamPosition(own.first.seq_num, own.first.timestamp)
                end = StreamPosition(own.end.seq_num, own.end.timestamp)
                entry.answer.set_result(AppendAck(start, end, end))

    def _fail_all(self, error: S2Error) -> None:
        """Fail everything that was handed over, and the refusals that rest on it."""
        while self._decided:
            self._decided.popleft().reject(error)


def as_s2_error(error: LogdriveError) -> S2Error:
    """Return what clients are told of an error of the store."""
    if isinstance(error, S2Error):
        return error
    if isinstance(error, NoSuchSegmentError):
        return unavailable("the stream was deleted")
    if isinstance(error, SegmentSealedError):
        return invalid("the stream is sealed: it was scaled, or ended, through another protocol")
    return storage(str(error))
