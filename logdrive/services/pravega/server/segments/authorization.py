"""Who may ask what of the face, where there is a `TokenVerifier` (specification, sections 3 and 6).

Each request brings a token, and is looked at by itself. Appends bring none: their writer was set up
with one, and the connection ends when the first token that a writer was set up with on it does, as
at a Pravega. The client sets up again, with another.
"""

import asyncio
from collections.abc import Callable

import structlog

from logdrive.services.auth.permissions import Permission
from logdrive.services.auth.token_verifier import TokenRefusedError, TokenVerifier
from logdrive.services.pravega.server.segments import tables as tabular
from logdrive.services.pravega.server.segments.reserved import segments_named_by
from logdrive.wire.pravega.appends import SetupAppend
from logdrive.wire.pravega.control import TOKEN_CHECK_FAILED, TOKEN_EXPIRED, AuthTokenCheckFailed
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    LocateOffset,
    ReadSegment,
)

_READING = (
    GetSegmentAttribute | GetStreamSegmentInfo | LocateOffset | ReadSegment | tabular.TableQuestion
)


class RequestAuthorization:
    """Looks at the requests of one connection, and calls *end* when it has to end.

    Close it with the connection.
    """

    def __init__(self, verifier: TokenVerifier | None, peer: str, end: Callable[[], None]) -> None:
        self._verifier, self._peer, self._end = verifier, peer, end
        self._told = False
        self._ends: int | None = None
        self._ending: asyncio.Task[None] | None = None

    def refuse_if_unauthorized(self, message: Message) -> AuthTokenCheckFailed | None:
        """Return what to answer instead of doing what *message* asks; None where its token allows
        it, or it needs none.
        """
        if self._verifier is None or not hasattr(message, "token"):
            return None
        wanted = Permission.READ if isinstance(message, _READING) else Permission.READ_UPDATE
        try:
            ends = self._verifier.verify_token(message.token, segments_named_by(message), wanted)
        except TokenRefusedError as error:
            self._tell(message, error)
            return AuthTokenCheckFailed(
                getattr(message, "request_id", -1),
                "",
                TOKEN_EXPIRED if error.expired else TOKEN_CHECK_FAILED,
            )
        if isinstance(message, SetupAppend) and ends is not None:
            self._hold(self._verifier, ends)
        return None

    def _tell(self, message: Message, error: TokenRefusedError) -> None:
        if not self._told:  # once a connection: whoever tries on fills no log
            self._told = True
            structlog.get_logger("logdrive.store.pravega").info(
                "a request was refused",
                peer=self._peer,
                request=type(message).__name__,
                reason=str(error),
            )

    def _hold(self, verifier: TokenVerifier, ends: int) -> None:
        if self._ends is None or ends < self._ends:
            self.close()
            self._ends = ends
            self._ending = asyncio.create_task(self._wait(verifier, ends), name="pravega-token")

    async def _wait(self, verifier: TokenVerifier, ends: int) -> None:
        # the wall clock may have been set meanwhile
        while (left := ends - verifier.clock.now_ms()) > 0:
            await verifier.clock.sleep(left / 1000)
        self._end()

    def close(self) -> None:
        """Forget when the connection was to end."""
        if self._ending is not None:
            self._ending.cancel()
