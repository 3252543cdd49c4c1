"""The writers of one connection, by writer id: set up one after another, remembered as long as they
are used (rule S2).

A connection has at most one segment for a writer at a time, and at most one set-up of it under way:
so the number that a writer here starts from is the one that the service compares its next append
with.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from uuid import UUID

from logdrive.errors import LogdriveError, ProtocolError, TransientError
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.errors import TokenError, expected
from logdrive.services.pravega.client.writer import AppendWriter
from logdrive.services.sink import NumberConflictError
from logdrive.wire.pravega.appends import (
    AppendSetup,
    ConditionalCheckFailed,
    DataAppended,
    SetupAppend,
)
from logdrive.wire.pravega.control import AuthTokenCheckFailed, InvalidEventNumber
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_WRITERS

_MOST = PRAVEGA_WRITERS // 2

TokenOf = Callable[[str], str]
"""Returns the delegation token for a segment, "" where there is none."""


def no_token(segment: str) -> str:
    """Return the token for services that ask for none."""
    return ""


class SegmentWriters:
    """Sets writers up and hands them the answers that concern them.

    Those not used for longest are forgotten beyond *most*.
    """

    def __init__(
        self, link: RequestChannel, *, token: TokenOf = no_token, most: int = _MOST
    ) -> None:
        self._link, self._token, self._most = link, token, most
        self._writers: dict[UUID, AppendWriter] = {}
        self._asked: dict[UUID, asyncio.Future[Message]] = {}

    def of(self, segment: str, writer: UUID) -> AppendWriter | None:
        """Return the writer that is set up for *segment*, or is being set up by `begin`; None where
        there is none, or it has ended.
        """
        found = self._writers.get(writer)
        if found is None or found.segment != segment or found.over:
            return None
        self._writers[writer] = self._writers.pop(writer)  # the last one used
        return found

    async def set_up(self, segment: str, writer: UUID) -> AppendWriter:
        """Set *writer* up once nothing of it is in flight.

        Cancelling leaves an answer behind that the next set-up waits for.
        """
        await self._free(writer)
        found: asyncio.Future[AppendWriter] = asyncio.get_running_loop().create_future()
        self._ask(segment, writer).add_done_callback(
            partial(self._answered, segment, writer, found)
        )
        await asyncio.wait([found])
        return found.result()

    def begin(self, segment: str, writer: UUID) -> AppendWriter:
        """Return a writer that the service should never have heard of; its appends go out once that
        was confirmed, else fail.

        Raises `NumberConflictError` where it is being set up already.
        """
        before = self._writers.get(writer)
        if writer in self._asked or (before is not None and before.busy):
            raise NumberConflictError(f"writer {writer} is being set up")
        answer = self._ask(segment, writer)
        begun = self._keep(AppendWriter(segment, writer, ABSENT, self._link, ready=False))
        answer.add_done_callback(partial(_begun, begun))
        return begun

    def receive(self, message: Message) -> None:
        """Hand an answer to the writers that it concerns.

        Raises `ProtocolError` where it makes no sense.

        A refused token ends the connection: an append's refusal names no writer, a read's names
        another request (Pravega's quirk).
        """
        if isinstance(message, AuthTokenCheckFailed):
            raise TokenError(
                "the service wants a token, or another one: its controller hands them "
                "out, to whom it knows"
            )
        try:
            if isinstance(message, DataAppended | ConditionalCheckFailed | InvalidEventNumber):
                if message.writer in self._writers:
                    self._writers[message.writer].receive(message)
            else:
                for writer in self._writers.values():
                    if writer.segment == getattr(message, "segment", None):
                        writer.receive(message)
        except ValueError as error:
            raise ProtocolError(str(error), offset=0) from error

    def end(self, failure: LogdriveError) -> None:
        """Fail all that is not acknowledged: the connection has ended."""
        for writer in self._writers.values():
            writer.end(failure)

    async def _free(self, writer: UUID) -> None:
        while True:
            before = self._writers.get(writer)
            if (asked := self._asked.get(writer)) is not None:
                await asyncio.wait([asked])
            elif before is not None and before.busy:
                await before.settled()
            else:
                return

    def _ask(self, segment: str, writer: UUID) -> "asyncio.Future[Message]":
        """Send the set-up; from now on nothing is appended that was compared with an older
        number.
        """
        answer = self._link.ask(
            lambda number: SetupAppend(number, writer, segment, self._token(segment))
        )
        before = self._writers.pop(writer, None)
        if before is not None:
            before.end(TransientError(f"writer {writer} was set up anew"))
        self._asked[writer] = answer
        answer.add_done_callback(lambda _: self._asked.pop(writer))
        return answer

    def _answered(
        self,
        segment: str,
        writer: UUID,
        found: "asyncio.Future[AppendWriter]",
        answer: "asyncio.Future[Message]",
    ) -> None:
        """Take the answer to a set-up as it comes: by the time its caller looks, there may be
        another set-up under way.
        """
        try:
            number = expected(AppendSetup, answer.result()).last_event_number
        except LogdriveError as error:
            found.set_exception(error)
            found.exception()  # the caller may have gone
        else:
            found.set_result(self._keep(AppendWriter(segment, writer, number, self._link)))

    def _keep(self, writer: AppendWriter) -> AppendWriter:
        self._writers[writer.id] = writer
        if (
            len(self._writers) > self._most
            and (oldest := next((w for w in self._writers.values() if not w.busy), None))
            is not None
        ):
            oldest.end(TransientError(f"writer {oldest.id} was forgotten: set it up again"))
            del self._writers[oldest.id]
        return writer


def _begun(writer: AppendWriter, answer: "asyncio.Future[Message]") -> None:
    if writer.over:
        return
    try:
        number = expected(AppendSetup, answer.result()).last_event_number
    except LogdriveError as error:
        writer.end(error)
        return
    if number == ABSENT:
        writer.start()
    else:
        writer.end(NumberConflictError(f"writer {writer.id} has the number {number} already"))
