"""The writers that are set up on one connection, by writer id (rule S2).

On a connection a writer has one segment at a time and one set-up in flight. So the number that an
`AppendWriter` starts with is the one that the service compares its next append with.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from uuid import UUID

from logdrive.errors import LogdriveError, ProtocolError, TransientError
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.errors import expect_answer, token_refused
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

_MOST = PRAVEGA_WRITERS // 2  # half of what a server remembers on one connection

TokenOf = Callable[[str], str]
"""Returns the delegation token for a segment, given its full name; "" if there is none."""


def no_token(segment: str) -> str:
    """Return "": the token for services that ask for none (a `TokenOf`)."""
    return ""


class SegmentWriters:
    """Sets writers up and passes answers on to them.

    Above *most* writers it forgets the idle one that was not used for longest.
    """

    def __init__(
        self, link: RequestChannel, *, token: TokenOf = no_token, most: int = _MOST
    ) -> None:
        self._link = link
        self._token = token
        self._most = most
        # The writers, least recently used first.
        self._writers: dict[UUID, AppendWriter] = {}
        # Set-ups without an answer.
        self._asked: dict[UUID, asyncio.Future[Message]] = {}

    def find_writer(self, segment: str, writer: UUID) -> AppendWriter | None:
        """Return the writer that is set up for *segment*, or was begun by `begin_new_writer`.

        Returns None if there is none or it has ended.
        """
        append_writer = self._writers.get(writer)
        if append_writer is None or append_writer.segment != segment or append_writer.ended:
            return None
        self._writers[writer] = self._writers.pop(writer)  # now the most recently used one
        return append_writer

    async def set_up_writer(self, segment: str, writer: UUID) -> AppendWriter:
        """Set *writer* up for *segment*, once none of its appends is in flight.

        If the caller is cancelled, the next set-up of the writer waits for the answer to this one.
        """
        await self._wait_idle(writer)
        set_up: asyncio.Future[AppendWriter] = asyncio.get_running_loop().create_future()
        self._ask(segment, writer).add_done_callback(
            partial(self._on_set_up_answer, segment, writer, set_up)
        )
        await asyncio.wait([set_up])
        return set_up.result()

    def begin_new_writer(self, segment: str, writer: UUID) -> AppendWriter:
        """Return a writer that has no number at the service, without waiting for the set-up.

        Its appends are sent once the service has confirmed that it has no number, and fail with
        `NumberConflictError` if it has one. Raises `NumberConflictError` if the writer is being set
        up or has appends in flight.
        """
        before = self._writers.get(writer)
        if writer in self._asked or (before is not None and before.busy):
            raise NumberConflictError(f"writer {writer} is being set up")
        answer = self._ask(segment, writer)
        begun = self._keep(AppendWriter(segment, writer, ABSENT, self._link, ready=False))
        answer.add_done_callback(partial(_confirm, begun))
        return begun

    def on_append_answer(self, message: Message) -> None:
        """Pass an answer that belongs to no request on to the writers that it concerns.

        Raises `ProtocolError` if it makes no sense. Raises `TokenError`, which ends the connection,
        if a token was refused: in Pravega the refusal of an append names no writer, and that of a
        read another request.
        """
        if isinstance(message, AuthTokenCheckFailed):
            raise token_refused()
        try:
            # these name their writer; a refusal because of the segment concerns all its writers
            if isinstance(message, DataAppended | ConditionalCheckFailed | InvalidEventNumber):
                if message.writer in self._writers:
                    self._writers[message.writer].on_append_answer(message)
            else:
                for writer in self._writers.values():
                    if writer.segment == getattr(message, "segment", None):
                        writer.on_append_answer(message)
        except ValueError as error:
            raise ProtocolError(str(error), offset=0) from error

    def fail_all(self, failure: LogdriveError) -> None:
        """Fail all appends without an answer: the connection has ended because of *failure*."""
        for writer in self._writers.values():
            writer.fail_all(failure)

    async def _wait_idle(self, writer: UUID) -> None:
        while True:
            before = self._writers.get(writer)
            if (asked := self._asked.get(writer)) is not None:
                await asyncio.wait([asked])
            elif before is not None and before.busy:
                await before.wait_idle()
            else:
                return

    def _ask(self, segment: str, writer: UUID) -> "asyncio.Future[Message]":
        """Send a set-up. The earlier `AppendWriter` ends: it has compared with an older number."""
        answer = self._link.send_request(
            lambda number: SetupAppend(number, writer, segment, self._token(segment))
        )
        before = self._writers.pop(writer, None)
        if before is not None:
            before.fail_all(TransientError(f"writer {writer} was set up again"))
        self._asked[writer] = answer
        answer.add_done_callback(lambda _: self._asked.pop(writer))
        return answer

    def _on_set_up_answer(
        self,
        segment: str,
        writer: UUID,
        set_up: "asyncio.Future[AppendWriter]",
        answer: "asyncio.Future[Message]",
    ) -> None:
        """Create the writer as soon as the set-up is answered.

        Not in the waiting task: another set-up may be in flight by the time that it runs.
        """
        try:
            number = expect_answer(AppendSetup, answer.result()).last_event_number
        except LogdriveError as error:
            set_up.set_exception(error)
            set_up.exception()  # retrieved, since the caller may have been cancelled
        else:
            set_up.set_result(self._keep(AppendWriter(segment, writer, number, self._link)))

    def _keep(self, writer: AppendWriter) -> AppendWriter:
        self._writers[writer.id] = writer
        # forget one here, so that the server never has to
        if (
            len(self._writers) > self._most
            and (oldest := next((w for w in self._writers.values() if not w.busy), None))
            is not None
        ):
            oldest.fail_all(TransientError(f"writer {oldest.id} was forgotten: set it up again"))
            del self._writers[oldest.id]
        return writer


def _confirm(writer: AppendWriter, answer: "asyncio.Future[Message]") -> None:
    """Let the appends of a begun writer go out, or fail them, as the answer to its set-up says."""
    if writer.ended:
        return
    try:
        number = expect_answer(AppendSetup, answer.result()).last_event_number
    except LogdriveError as error:
        writer.fail_all(error)
        return
    if number == ABSENT:  # as its first append expects
        writer.confirm_set_up()
    else:
        writer.fail_all(NumberConflictError(f"writer {writer.id} has the number {number} already"))
