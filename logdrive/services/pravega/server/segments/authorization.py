"""Authorization of the requests of one connection (docs/protocols/pravega.md#tokens).

Each request brings a token, which is verified by itself. Appends bring none: their writer was set
up with one. When the first such token of a connection expires, the connection ends, as at a
Pravega; the client connects anew and sets its writers up with a new token.
"""

import asyncio
from collections.abc import Callable

import structlog

from logdrive.services.auth.permissions import Permission
from logdrive.services.auth.token_verifier import TokenRefusedError, TokenVerifier
from logdrive.services.pravega.server.segments import tables
from logdrive.services.pravega.server.segments.reserved import segments_named_by
from logdrive.wire.pravega.appends import SetupAppend
from logdrive.wire.pravega.control import TOKEN_CHECK_FAILED, TOKEN_EXPIRED, AuthTokenCheckFailed
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.own import LocateAppends
from logdrive.wire.pravega.segments import (
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    LocateOffset,
    ReadSegment,
)

_READING = (
    GetSegmentAttribute
    | GetStreamSegmentInfo
    | LocateAppends
    | LocateOffset
    | ReadSegment
    | tables.TableQuestion
)


class RequestAuthorization:
    """Verifies the tokens of one connection's requests. Close it with the connection.

    Without *verifier* every request is allowed. *end* is called when a token of a set-up writer
    expires. *peer* is the client's address, for the log.
    """

    def __init__(self, verifier: TokenVerifier | None, peer: str, end: Callable[[], None]) -> None:
        self._verifier = verifier
        self._peer = peer
        self._end = end
        # a refusal was logged
        self._logged = False
        # when the first token of a set-up writer expires, in ms since 1970
        self._expires_ms: int | None = None
        self._expiry: asyncio.Task[None] | None = None

    def refuse_if_unauthorized(self, message: Message) -> AuthTokenCheckFailed | None:
        """Return the reply that refuses *message*; None if its token allows it or it needs none."""
        if self._verifier is None or not hasattr(message, "token"):
            return None
        wanted = Permission.READ if isinstance(message, _READING) else Permission.READ_UPDATE
        try:
            expires_ms = self._verifier.verify_token(
                message.token, segments_named_by(message), wanted
            )
        except TokenRefusedError as error:
            self._log_refusal(message, error)
            return AuthTokenCheckFailed(
                getattr(message, "request_id", -1),
                "",
                TOKEN_EXPIRED if error.expired else TOKEN_CHECK_FAILED,
            )
        if isinstance(message, SetupAppend) and expires_ms is not None:
            self._end_at_expiry(self._verifier, expires_ms)
        return None

    def _log_refusal(self, message: Message, error: TokenRefusedError) -> None:
        if not self._logged:  # once a connection: a client that tries again would fill the log
            self._logged = True
            structlog.get_logger("logdrive.store.pravega").info(
                "a request was refused",
                peer=self._peer,
                request=type(message).__name__,
                reason=str(error),
            )

    def _end_at_expiry(self, verifier: TokenVerifier, expires_ms: int) -> None:
        if self._expires_ms is None or expires_ms < self._expires_ms:
            self.close()
            self._expires_ms = expires_ms
            self._expiry = asyncio.create_task(
                self._wait_for_expiry(verifier, expires_ms), name="pravega-token"
            )

    async def _wait_for_expiry(self, verifier: TokenVerifier, expires_ms: int) -> None:
        # look again after the sleep: the wall clock may have been set meanwhile
        while (left := expires_ms - verifier.clock.now_ms()) > 0:
            await verifier.clock.sleep(left / 1000)
        self._end()

    def close(self) -> None:
        """Stop waiting for the token's expiry."""
        if self._expiry is not None:
            self._expiry.cancel()
