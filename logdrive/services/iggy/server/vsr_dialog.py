"""R3 on a connection: sessions, and changes that are made once. See docs/protocols/iggy.md#r3.

A client registers, which is its login, and gets a session. Each change of metadata has a number
that rises: a repeated one is answered as before and not made again.

A real server leaves some requests without an answer, so that clients wait until they give up. Here
each is answered with a status, or ends the session with an eviction.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from logdrive.model.framing import Part
from logdrive.services.iggy.server.sessions import IggySession, IggySessions
from logdrive.wire.iggy.commands import (
    COMMAND_BY_CODE,
    COMMAND_BY_OPERATION,
    COMMAND_BY_REQUEST,
    LOGOUT,
    NON_REPLICATED,
    REGISTER,
)
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.replies import IggyReply, LoggedIn
from logdrive.wire.iggy.replies_codec import reply_parts
from logdrive.wire.iggy.requests import (
    IggyLogin,
    IggyRequest,
    LoginWithToken,
    Logout,
    Ping,
    SendMessages,
)
from logdrive.wire.iggy.requests_codec import decode_request
from logdrive.wire.iggy.revision import Revision
from logdrive.wire.iggy.vsr.frames import (
    VsrRequest,
    VsrRequests,
    encode_vsr_reply,
    request_checksum,
)
from logdrive.wire.iggy.vsr.headers import (
    HEAD_BYTES,
    Eviction,
    EvictionReason,
    ReplyHeader,
    RequestHeader,
)
from logdrive.wire.iggy.vsr.register import (
    CURRENT_PROTOCOL,
    OLDEST_PROTOCOL,
    accepts_protocol,
    decode_register,
)
from logdrive.wire.iggy.vsr.results import frame_failure, frame_result, is_result_framed

SERVER_VERSION: Final = "0.9.0"
"""The release of Iggy's server whose protocol this is; clients are told it at their login."""
SILENCE_SECONDS: Final = 120.0
"""A client that sends nothing for so long is evicted; Iggy's own send a ping every 5 s.

Real servers announce 30 s, and then keep silent clients for longer than 100 s.
"""
_CACHED_REPLIES: Final = 8
"""Replies to changes that are kept of each session, the newest."""
_FIRST_METADATA, _LAST_METADATA = 128, 149
_PING: Final = COMMAND_BY_REQUEST[Ping].code
_LOGINS: Final = (COMMAND_BY_REQUEST[IggyLogin].code, COMMAND_BY_REQUEST[LoginWithToken].code)
_NO_CHECKSUM: Final = bytes(16)

_EVICTIONS: Final = {
    Reason.INVALID_CREDENTIALS: EvictionReason.BAD_CREDENTIALS,
    Reason.INVALID_USER_NAME: EvictionReason.BAD_CREDENTIALS,
    Reason.INVALID_PASSWORD: EvictionReason.BAD_CREDENTIALS,
    Reason.INVALID_TOKEN: EvictionReason.BAD_TOKEN,
    Reason.RESOURCE_NOT_FOUND: EvictionReason.BAD_TOKEN,  # no such token
    Reason.TOKEN_EXPIRED: EvictionReason.BAD_TOKEN,
    Reason.USER_INACTIVE: EvictionReason.USER_INACTIVE,
}
"""Why a login is refused; any other reason is a SESSION_ERROR."""
_TOLD_IN_HEAD: Final = frozenset(
    {
        Reason.FEATURE_UNAVAILABLE,
        Reason.UNAUTHENTICATED,
        Reason.UNAUTHORIZED,
        Reason.UNKNOWN_OPTION,
        Reason.INVALID_OPTION_VALUE,
        Reason.OPTIONS_TOO_BIG,
    }
)
"""Reasons for which a change is refused before it is begun: they are the status of the reply's
head, others are told in its body.
"""


@dataclass(slots=True)
class _Registration:
    """A client that is logged in: its id, its session's number, and its latest changes."""

    client: bytes
    session: int
    newest: int = 0  # the highest number of a change
    # of each change, the checksum of its request and its reply
    replies: OrderedDict[int, tuple[bytes, Sequence[Part]]] = field(default_factory=OrderedDict)

    def reply_to(self, header: RequestHeader) -> Sequence[Part] | None:
        """Return the reply to a change made before, None for a new one. Raises `IggyError`."""
        if header.number == 0:
            raise IggyError(Reason.INVALID_COMMAND, "a change without a number")
        known = self.replies.get(header.number)
        if known is not None and known[0] == header.checksum:
            return known[1]
        if known is not None or header.number <= self.newest:
            raise IggyError(Reason.ALREADY_APPLIED, f"change {header.number} was made before")
        return None

    def keep_reply(self, header: RequestHeader, reply: Sequence[Part]) -> None:
        """Note that the change that *header* begins was made, or has failed, with *reply*."""
        self.newest = max(self.newest, header.number)
        self.replies[header.number] = (header.checksum, reply)
        if len(self.replies) > _CACHED_REPLIES:
            self.replies.popitem(last=False)


class VsrDialog:
    """Cuts the bytes of a client of R3 into requests; each login begins a session in *sessions*.

    *send_bytes* bounds the body of a send.
    """

    silence_seconds = SILENCE_SECONDS

    def __init__(self, session: IggySession, sessions: IggySessions, *, send_bytes: int) -> None:
        self.session = session
        self.over = False
        session.revision = Revision.R3
        self._sessions = sessions
        self._frames = VsrRequests(send_bytes)
        self._registered: _Registration | None = None
        self._client = b""  # the id that came last

    @property
    def buffered(self) -> int:
        """Bytes of a request that has not come whole."""
        return self._frames.buffered

    def receive_data(self, data: bytes) -> None:
        """Add what the client sent."""
        self._frames.receive(data)

    def next_exchange(self) -> "VsrExchange | None":
        """Return the next request that came whole, or None. Raises `ProtocolError`."""
        request = self._frames.next_request()
        if request is None:
            return None
        self._client = request.header.client
        return VsrExchange(self, request)

    def end_stale_session(self) -> Sequence[Part]:
        """Return the eviction of a client that was silent for too long."""
        return self.evict(EvictionReason.STALE_CLIENT)

    def evict(self, reason: EvictionReason) -> Sequence[Part]:
        """End the dialog; return what tells the client why."""
        self.over = True
        told = reason is EvictionReason.INCOMPATIBLE_PROTOCOL
        newest, oldest = (CURRENT_PROTOCOL, OLDEST_PROTOCOL) if told else (0, 0)
        return [Eviction(self._client, reason, newest, oldest).encode()]

    # Requests ------------------------------------------------------------------------------------

    def decode(self, request: VsrRequest) -> IggyRequest | Sequence[Part]:
        """Return a request, or its answer if there is one already. Raises `IggyError`."""
        header, body = request.header, request.body
        if header.operation == REGISTER:
            return self._decode_login(body)
        if header.operation == NON_REPLICATED and header.code == _PING:
            return decode_request(Revision.R3, header.code, body)
        if header.operation == NON_REPLICATED and header.code in _LOGINS:
            return self.evict(EvictionReason.MALFORMED_LOGIN)

        registered = self._registered
        if registered is None or self.session.user_id is None:
            raise IggyError(Reason.UNAUTHENTICATED, "no login came before")
        if (header.client, header.session) != (registered.client, registered.session):
            return self.evict(EvictionReason.NO_SESSION)
        if header.checksum not in (_NO_CHECKSUM, request_checksum(body)):
            raise IggyError(Reason.CHECKSUM_MISMATCH, "the body's checksum is wrong")
        if _is_change(header) and (reply := registered.reply_to(header)) is not None:
            return reply
        return decode_request(Revision.R3, _code_of(header), body)

    def _decode_login(self, body: memoryview) -> IggyRequest | Sequence[Part]:
        try:
            registration = decode_register(body)
        except IggyError:
            return self.evict(EvictionReason.MALFORMED_LOGIN)
        if not accepts_protocol(registration.protocol):
            return self.evict(EvictionReason.INCOMPATIBLE_PROTOCOL)
        # a session of before ends, as at a logout
        self._registered = None
        address = self.session.address
        self._sessions.close_session(self.session)
        self.session = self._sessions.open_session(address, Revision.R3)
        return registration.login

    # Answers -------------------------------------------------------------------------------------

    def note_registered(self, header: RequestHeader, reply: LoggedIn) -> LoggedIn:
        """Begin the session of a client that has logged in; return what it is told."""
        number = self.session.client_id
        self._registered = _Registration(header.client, number)
        return replace(reply, session=number, protocol=CURRENT_PROTOCOL, version=SERVER_VERSION)

    def note_logged_out(self) -> None:
        """Forget the session of a client that has logged out."""
        self._registered = None

    def note_changed(self, header: RequestHeader, reply: Sequence[Part]) -> None:
        """Keep the reply to a change, should its request be repeated."""
        if self._registered is not None and _is_change(header):
            self._registered.keep_reply(header, reply)


class VsrExchange:
    """A request of R3."""

    def __init__(self, dialog: VsrDialog, request: VsrRequest) -> None:
        self.size = HEAD_BYTES + len(request.body)
        self._dialog = dialog
        self._header = request.header
        self._request: VsrRequest | None = request
        self._decoded = False

    def decode(self) -> IggyRequest | Sequence[Part]:
        """Return the request, or its answer if there is one already. Raises `IggyError`."""
        assert self._request is not None, "decoded already"
        request, self._request = self._request, None
        found = self._dialog.decode(request)
        self._decoded = True
        return found

    def accept(self, request: IggyRequest, reply: object) -> Sequence[Part]:
        """Return the frame that answers *request* with *reply*."""
        header = self._header
        if isinstance(reply, LoggedIn):
            reply = self._dialog.note_registered(header, reply)
        elif isinstance(request, Logout):
            self._dialog.note_logged_out()
        parts = reply_parts(Revision.R3, request, cast(IggyReply, reply))
        if is_result_framed(header.operation):
            parts = [frame_result(b""), *parts]
        size = sum(map(len, parts))
        head = ReplyHeader(header.client, header.operation, size, header.number, 0, header.checksum)
        answer = [head.encode(), *parts]
        self._dialog.note_changed(header, answer)
        return answer

    def refuse(self, error: IggyError) -> Sequence[Part]:
        """Return the frame that tells *error*; a login that fails ends the dialog."""
        header = self._header
        if header.operation == REGISTER:
            return self._dialog.evict(_EVICTIONS.get(error.reason, EvictionReason.SESSION_ERROR))
        sending = COMMAND_BY_OPERATION.get(header.operation)
        code = error.code(
            Revision.R3, sending=sending is not None and sending.request is SendMessages
        )
        in_body = self._decoded and error.reason not in _TOLD_IN_HEAD
        if in_body and is_result_framed(header.operation):
            answer = [encode_vsr_reply(header, frame_failure(code))]
            self._dialog.note_changed(header, answer)
            return answer
        return [encode_vsr_reply(header, status=code)]


def _is_change(header: RequestHeader) -> bool:
    """Whether a request changes metadata, so that its number counts."""
    return _FIRST_METADATA <= header.operation <= _LAST_METADATA


def _code_of(header: RequestHeader) -> int:
    """Return the code of the command that a request is. Raises `IggyError`."""
    if header.operation == NON_REPLICATED:
        command = COMMAND_BY_CODE.get(header.code)
        if command is not None and command.operation == NON_REPLICATED:
            return header.code
    elif header.operation == LOGOUT:
        return COMMAND_BY_REQUEST[Logout].code
    elif (command := COMMAND_BY_OPERATION.get(header.operation)) is not None:
        return command.code
    raise IggyError(
        Reason.INVALID_COMMAND, f"no operation {header.operation} with code {header.code}"
    )
