"""The classic revisions on a connection, and how a client's revision is recognized. See
docs/protocols/iggy.md#telling-revisions.

A ping is the same in all revisions. A login with a password has the version of the client's
library, which decides. Any other first request is one of R0, which has no logins.
"""

from collections.abc import Sequence
from typing import Final, cast

from logdrive.model.framing import Part
from logdrive.services.iggy.server.answering import IggyAnswering
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.wire.iggy.commands import COMMAND_BY_REQUEST
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.frames import RequestFrames, encode_reply_frame, encode_reply_head
from logdrive.wire.iggy.limits import REQUEST_HEAD_BYTES
from logdrive.wire.iggy.payloads.sessions import revision_of_login
from logdrive.wire.iggy.replies import IggyReply
from logdrive.wire.iggy.replies_codec import reply_parts
from logdrive.wire.iggy.requests import IggyLogin, IggyRequest, LoginWithToken, Ping
from logdrive.wire.iggy.requests_codec import decode_request
from logdrive.wire.iggy.revision import Revision

_PING: Final = COMMAND_BY_REQUEST[Ping].code
_LOGIN: Final = COMMAND_BY_REQUEST[IggyLogin].code
_TOKEN_LOGIN: Final = COMMAND_BY_REQUEST[LoginWithToken].code
LIKELIEST: Final = Revision.R2C
"""The revision taken for a classic client whose login has none: libraries in other languages
speak it."""


class ClassicDialog:
    """Cuts a classic client's bytes into requests.

    *fixed* is the revision of all clients where the operator chose one. *nameless*: clients of R0
    are served, who have no login. *send_bytes* bounds the payload of a send.
    """

    silence_seconds = None
    over = False

    def __init__(
        self,
        session: IggySession,
        answering: IggyAnswering,
        *,
        fixed: Revision | None,
        nameless: bool,
        send_bytes: int,
    ) -> None:
        self.session = session
        self._answering = answering
        self._fixed = fixed
        self._nameless = nameless
        self._frames = RequestFrames(send_bytes)
        # what the client is known to speak
        self._told = fixed
        self._begun = False  # a request was decoded
        session.revision = fixed if fixed is not None else LIKELIEST

    @property
    def buffered(self) -> int:
        """Bytes of a request that has not come whole."""
        return self._frames.buffered

    def receive_data(self, data: bytes) -> None:
        """Add what the client sent."""
        self._frames.receive(data)

    def next_exchange(self) -> "ClassicExchange | None":
        """Return the next request that came whole, or None. Raises `ProtocolError`."""
        frame = self._frames.next_frame()
        return None if frame is None else ClassicExchange(self, frame.code, frame.payload)

    def end_stale_session(self) -> Sequence[Part]:
        """Return nothing: classic clients need not send heartbeats."""
        return ()

    def decode(self, code: int, payload: memoryview) -> IggyRequest:
        """Return a request. Raises `IggyError`."""
        first, self._begun = not self._begun, True
        if code == _LOGIN:
            self._tell(self._revision_of_login(payload))
        elif code not in (_PING, _TOKEN_LOGIN) and self.session.user_id is None:
            self._admit_nameless(first)
        return decode_request(self.session.revision, code, payload)

    def _revision_of_login(self, payload: memoryview) -> Revision:
        if self._fixed is not None:
            return self._fixed
        told = revision_of_login(payload)
        return told if told is not None else LIKELIEST

    def _admit_nameless(self, first: bool) -> None:
        """Let a client of R0 in, who has no login. Raises `IggyError` for any other."""
        known = self._told is Revision.R0 or (self._told is None and first)
        if not known or not self._nameless:
            raise IggyError(Reason.UNAUTHENTICATED, "no login came before")
        self._tell(Revision.R0)
        self._answering.admit_nameless(self.session)

    def _tell(self, revision: Revision) -> None:
        self._told = self.session.revision = revision


class ClassicExchange:
    """A request of a classic client."""

    def __init__(self, dialog: ClassicDialog, code: int, payload: memoryview) -> None:
        self.size = REQUEST_HEAD_BYTES + len(payload)
        self._dialog = dialog
        self._code = code
        self._payload: memoryview | None = payload

    def decode(self) -> IggyRequest:
        """Return the request. Raises `IggyError`."""
        assert self._payload is not None, "decoded already"
        payload, self._payload = self._payload, None
        return self._dialog.decode(self._code, payload)

    def accept(self, request: IggyRequest, reply: object) -> Sequence[Part]:
        """Return the frame that answers *request* with *reply*."""
        try:
            parts = reply_parts(self._dialog.session.revision, request, cast(IggyReply, reply))
        except IggyError as error:  # R0 tells so what was not found
            return self.refuse(error)
        return [encode_reply_head(0, sum(map(len, parts))), *parts]

    def refuse(self, error: IggyError) -> Sequence[Part]:
        """Return the frame that tells *error*."""
        return [encode_reply_frame(error.code(self._dialog.session.revision))]
