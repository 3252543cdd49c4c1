"""How requests and replies are framed at a client: as in the classic revisions, or as in R3."""

from collections.abc import Sequence
from random import Random
from typing import Final, Protocol

from logdrive.errors import TransientError
from logdrive.model.framing import Part
from logdrive.wire.iggy.commands import COMMAND_BY_REQUEST, NON_REPLICATED
from logdrive.wire.iggy.errors import IggyError, Reason, error_of
from logdrive.wire.iggy.frames import ReplyFrames, encode_request_frame
from logdrive.wire.iggy.replies import LoggedIn
from logdrive.wire.iggy.requests import IggyLogin, IggyRequest
from logdrive.wire.iggy.requests_codec import request_parts
from logdrive.wire.iggy.revision import Revision
from logdrive.wire.iggy.vsr.frames import VsrReplies, encode_vsr_request
from logdrive.wire.iggy.vsr.headers import Eviction, EvictionReason
from logdrive.wire.iggy.vsr.register import (
    CURRENT_PROTOCOL,
    IggyRegistration,
    decode_registered,
    encode_register,
)
from logdrive.wire.iggy.vsr.results import unframe_result

CLIENT_VERSION: Final = "0.10.0"
"""The version that is told at a login: that of Iggy's own library for the newest revision that has
classic frames. Servers do not compare it.
"""
_SDK: Final = "logdrive"
_REFUSED: Final = {
    EvictionReason.BAD_CREDENTIALS: Reason.INVALID_CREDENTIALS,
    EvictionReason.BAD_TOKEN: Reason.INVALID_TOKEN,
    EvictionReason.USER_INACTIVE: Reason.USER_INACTIVE,
    EvictionReason.INCOMPATIBLE_PROTOCOL: Reason.INCOMPATIBLE_PROTOCOL,
    EvictionReason.MALFORMED_LOGIN: Reason.INVALID_FORMAT,
}


class ClientFraming(Protocol):
    """Frames requests, and cuts replies out of what the server sends. Replies come in the order of
    the requests.
    """

    revision: Revision

    def encode(self, request: IggyRequest) -> Sequence[Part]:
        """Return the frame of *request*. Raises ValueError for what the revision can't say."""
        ...

    def receive_data(self, data: bytes) -> None:
        """Add what the server sent."""
        ...

    def next_payload(self) -> memoryview | IggyError | None:
        """Return the payload of the next reply, or the error that it tells; None until it is there.

        Raises `ProtocolError`; and `TransientError` or `IggyError` if the server ended the session.
        """
        ...


class ClassicFraming:
    """The frames of R0 to R2C. *revision* may be told later than the first reply."""

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self._frames = ReplyFrames()

    def encode(self, request: IggyRequest) -> Sequence[Part]:
        """Return the frame of *request*, as `ClientFraming` says."""
        code, parts = request_parts(self.revision, request)
        return [encode_request_frame(code, *parts)]

    def receive_data(self, data: bytes) -> None:
        """Add what the server sent."""
        self._frames.receive(data)

    def next_payload(self) -> memoryview | IggyError | None:
        """Return the next reply, as `ClientFraming` says."""
        frame = self._frames.next_frame()
        if frame is None:
            return None
        return error_of(self.revision, frame.status) if frame.status else frame.payload


class VsrFraming:
    """The frames of R3, of one client id."""

    revision = Revision.R3

    def __init__(self, random: Random) -> None:
        self._client = random.getrandbits(128).to_bytes(16, "little")
        self._frames = VsrReplies()
        self._session = 0  # 0 before the login
        self._number = 1  # of the last request that counts

    def encode(self, request: IggyRequest) -> Sequence[Part]:
        """Return the frame of *request*, as `ClientFraming` says."""
        if COMMAND_BY_REQUEST[type(request)].operation != NON_REPLICATED:
            self._number += 1  # the servers want it for metadata, Iggy's own clients do it for all
        code, parts = request_parts(self.revision, request)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return [
            encode_vsr_request(
                code, body, client=self._client, number=self._number, session=self._session
            )
        ]

    def encode_login(self, login: IggyLogin) -> bytes:
        """Return the frame of a login; its payload is for `log_in`."""
        registration = IggyRegistration(CURRENT_PROTOCOL, _SDK, CLIENT_VERSION, login)
        code = COMMAND_BY_REQUEST[IggyLogin].code
        return encode_vsr_request(code, encode_register(registration), client=self._client)

    def log_in(self, payload: memoryview) -> LoggedIn:
        """Take the session from the reply to a login. Raises `IggyError` if it is none."""
        logged_in = decode_registered(payload)
        self._session = logged_in.session
        return logged_in

    def receive_data(self, data: bytes) -> None:
        """Add what the server sent."""
        self._frames.receive(data)

    def next_payload(self) -> memoryview | IggyError | None:
        """Return the next reply, as `ClientFraming` says."""
        reply = self._frames.next_reply()
        if reply is None:
            return None
        if isinstance(reply, Eviction):
            raise _ended(reply)
        if reply.header.status:
            return error_of(self.revision, reply.header.status)
        try:
            return unframe_result(reply.header.operation, reply.body)
        except IggyError as error:
            return error


def _ended(eviction: Eviction) -> TransientError | IggyError:
    """Return the error that the end of a session means."""
    for known, reason in _REFUSED.items():
        if eviction.reason == known:
            return IggyError(reason, "the server refuses the login")
    return TransientError(f"the server ended the session (reason {eviction.reason})")
