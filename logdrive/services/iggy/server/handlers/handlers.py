"""The way from a request to the function that answers it."""

import asyncio
from typing import Final, cast

from logdrive.errors import StorageError, TransientError
from logdrive.services.iggy.server.handlers import messages
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.handlers.table import (
    EMPTY_IF_MISSING,
    HANDLERS,
    WITHOUT_LOGIN,
)
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.users import ROOT_ID
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.streams.errors import (
    BadNameError,
    NoSuchScopeError,
    NoSuchStreamError,
    PreconditionError,
    StreamSealedError,
    StreamsError,
)
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.replies import IggyReply
from logdrive.wire.iggy.requests import GetStats, IggyRequest, SendMessages
from logdrive.wire.iggy.revision import Revision

_MISSING: Final = frozenset(
    {
        Reason.STREAM_NOT_FOUND,
        Reason.STREAM_NAME_NOT_FOUND,
        Reason.TOPIC_NOT_FOUND,
        Reason.TOPIC_NAME_NOT_FOUND,
        Reason.GROUP_NOT_FOUND,
        Reason.GROUP_NAME_NOT_FOUND,
    }
)


_REFUSALS: Final = frozenset(
    {Reason.INVALID_CREDENTIALS, Reason.USER_INACTIVE, Reason.UNAUTHORIZED}
)


class Handlers:
    """Answers the requests of all connections of one store: an `IggyAnswering`."""

    def __init__(self, service: IggyService) -> None:
        self._service = service

    async def handle(self, session: IggySession, request: IggyRequest) -> IggyReply:
        """Return the reply to *request*; what it has changed is durable.

        Raises `IggyError`, whose code is to be sent.
        """
        if isinstance(request, SendMessages):
            return cast("IggyReply", await (await self.begin_send(session, request)))
        try:
            await self._admit(session, request)
            return await HANDLERS[type(request)](self._service, session, request)
        except IggyError as error:
            self._note_refusal(session, request, error)
            # from R1 on, what is asked for and missing is an empty reply
            asked = type(request) in EMPTY_IF_MISSING and session.revision >= Revision.R1
            if asked and error.reason in _MISSING:
                return None
            raise
        except (StreamsError, TransientError, StorageError, NoSuchSegmentError) as error:
            raise as_answer(error) from error

    async def begin_send(
        self, session: IggySession, request: SendMessages
    ) -> "asyncio.Future[object]":
        """Check a send and submit it to the store; return what is done once it is durable.

        Its result is a tuple of `SendConfirmation`. Raises `IggyError`.
        """
        try:
            await self._admit(session, request)
            return await messages.begin_send(self._service, session, request)
        except IggyError as error:
            self._note_refusal(session, request, error)
            raise
        except (StreamsError, TransientError, StorageError, NoSuchSegmentError) as error:
            raise as_answer(error) from error

    def admit_nameless(self, session: IggySession) -> None:
        """Let a client in whose revision has no logins, unless there is a users file."""
        if not self._service.users.needs_login:
            session.log_in(ROOT_ID)

    def _note_refusal(self, session: IggySession, request: IggyRequest, error: IggyError) -> None:
        """Log *error* if it is a refusal of who came; figures are asked to tell the revision."""
        if error.reason in _REFUSALS and not isinstance(request, GetStats):
            kind = type(request).__name__
            self._service.refusals.note(session.address, kind, error.reason.name, str(error))

    async def _admit(self, session: IggySession, request: IggyRequest) -> None:
        if self._service.is_doubtful:
            await self._service.resolve_doubt()
        if type(request) in WITHOUT_LOGIN:
            return
        if session.user_id is None:
            raise IggyError(Reason.UNAUTHENTICATED, "log in first")
        user = self._service.users.find(session.user_id)
        if user is None or not user.active:
            session.log_out()
            raise IggyError(Reason.UNAUTHENTICATED, "the user was deleted, or is not active")


def as_answer(error: Exception) -> IggyError:
    """Return what a client is told of *error*."""
    match error:
        case NoSuchScopeError():
            reason = Reason.STREAM_NOT_FOUND
        case NoSuchStreamError():
            reason = Reason.TOPIC_NOT_FOUND
        case NoSuchSegmentError():
            reason = Reason.PARTITION_NOT_FOUND
        case StreamSealedError():
            reason = Reason.SEGMENT_CLOSED
        case BadNameError():
            reason = Reason.INVALID_FORMAT
        case PreconditionError():
            reason = Reason.TOO_MANY_PARTITIONS
        case StreamsError():
            reason = Reason.ERROR
        case _:
            reason = Reason.IO_ERROR
    return IggyError(reason, str(error))
