"""The way from a request to the function that answers it.

    handlers = Handlers(service)
    session = handlers.begin("127.0.0.1:4000", Revision.R1)
    reply = await handlers.handle(session, request)
    await handlers.end(session)

One request at a time may be under way for a session, except sends: these may be started one after
the other before the first is answered, and are stored in that order.
"""

from logdrive.errors import StorageError, TransientError
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.handlers.table import HANDLERS, OPEN
from logdrive.services.iggy.server.state.sessions import IggySession
from logdrive.services.iggy.server.state.users import ROOT_ID
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.streams.errors import (
    BadNameError,
    NoSuchScopeError,
    NoSuchStreamError,
    StreamSealedError,
    StreamsError,
)
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.replies import IggyReply
from logdrive.wire.iggy.requests import IggyRequest
from logdrive.wire.iggy.revision import Revision


class Handlers:
    """Answers the requests of all connections of one store."""

    def __init__(self, service: IggyService) -> None:
        self._service = service

    def begin(self, address: str, revision: Revision) -> IggySession:
        """Return the session of a new connection; *address* is the peer's "ip:port"."""
        return self._service.sessions.begin(address, revision)

    async def end(self, session: IggySession) -> None:
        """End the session of a connection that is closed: its memberships of groups end."""
        self._service.members.leave_all(session.client_id)
        self._service.sessions.end(session)

    async def handle(self, session: IggySession, request: IggyRequest) -> IggyReply:
        """Return the reply to *request*; what it has changed is durable.

        Raises `IggyError`, whose code is to be sent; nothing else but programming errors.
        """
        try:
            if self._service.is_doubtful:
                await self._service.resolve_doubt()
            if type(request) not in OPEN:
                self._admit(session)
            handler = HANDLERS[type(request)]
            return await handler(self._service, session, request)
        except StreamsError as error:
            raise IggyError(_reason(error), str(error)) from error
        except NoSuchSegmentError as error:  # deleted by another face at this moment
            raise IggyError(Reason.PARTITION_NOT_FOUND, str(error)) from error
        except (TransientError, StorageError) as error:
            raise IggyError(Reason.IO_ERROR, str(error)) from error

    def _admit(self, session: IggySession) -> None:
        """Raise `IggyError` unless somebody has logged in; R0 has no login, and needs none."""
        has_login = session.revision is not Revision.R0 or self._service.users.needs_login
        if session.user is None and not has_login:
            session.user = ROOT_ID
        if session.user is None:
            raise IggyError(Reason.UNAUTHENTICATED, "log in first")


def _reason(error: StreamsError) -> Reason:
    match error:
        case NoSuchScopeError():
            return Reason.STREAM_NOT_FOUND
        case NoSuchStreamError():
            return Reason.TOPIC_NOT_FOUND
        case BadNameError():
            return Reason.INVALID_FORMAT
        case StreamSealedError():
            return Reason.SEGMENT_CLOSED
        case _:
            return Reason.ERROR
