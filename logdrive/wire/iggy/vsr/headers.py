"""Heads of R3's frames, 256 bytes each. See docs/protocols/iggy.md#r3-frames.

All numbers are little-endian. A client's request begins with 16 zero bytes, so that its first four
tell R3 from a classic revision. What a single server does not use (cluster, view, replica, commit
…) is ignored when it comes, and zero when it is sent.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

HEAD_BYTES: Final = 256
SIZE_AT: Final = 48
"""Where the frame's size is, head included."""
REQUEST: Final = 5
REPLY: Final = 8
EVICTION: Final = 13

_COMMON: Final = struct.Struct("<48xI8xB")
# client, request checksum, timestamp, number, operation, session, user, code
_REQUEST: Final = struct.Struct("<16s16sQQB7xQII56x")
# request checksum, context, client, op, commit, timestamp, number, operation, status
_REPLY: Final = struct.Struct("<16s16x16sQQQQB7xI36x")
_EVICTION: Final = struct.Struct("<16sII103xB")
_BODY_AT: Final = 128  # where a frame's own fields begin


class EvictionReason(IntEnum):
    """Why a server ends a session."""

    NO_SESSION = 1
    RELEASE_TOO_LOW = 2
    RELEASE_TOO_HIGH = 3
    BAD_OPERATION = 4
    BAD_BODY = 5
    BAD_BODY_SIZE = 6
    SESSION_TOO_LOW = 7
    RELEASE_MISMATCH = 8
    BAD_CREDENTIALS = 9
    BAD_TOKEN = 10
    USER_INACTIVE = 11
    SESSION_ERROR = 12
    STALE_CLIENT = 13
    INCOMPATIBLE_PROTOCOL = 14
    MALFORMED_LOGIN = 15


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """Head of a request: *size* is that of its body.

    *client* is 16 bytes, not zero, new for each registration. *number* is 0 at Register, then rises
    with each metadata operation. *code* tells the command where *operation* is NON_REPLICATED.
    """

    client: bytes
    operation: int
    size: int = 0
    number: int = 0
    session: int = 0
    code: int = 0
    checksum: bytes = bytes(16)

    def encode(self) -> bytes:
        """Return the 256 bytes."""
        own = _REQUEST.pack(
            self.client,
            self.checksum,
            0,
            self.number,
            self.operation,
            self.session,
            0,
            self.code,
        )
        return _COMMON.pack(HEAD_BYTES + self.size, REQUEST).ljust(_BODY_AT, b"\0") + own


@dataclass(frozen=True, slots=True)
class ReplyHeader:
    """Head of a reply: *size* is that of its body; most fields repeat those of the request.

    *status* is 0, or an error's code, and then there is no body.
    """

    client: bytes
    operation: int
    size: int = 0
    number: int = 0
    status: int = 0
    checksum: bytes = bytes(16)

    def encode(self) -> bytes:
        """Return the 256 bytes."""
        own = _REPLY.pack(
            self.checksum, self.client, 0, 0, 0, self.number, self.operation, self.status
        )
        return _COMMON.pack(HEAD_BYTES + self.size, REPLY).ljust(_BODY_AT, b"\0") + own


@dataclass(frozen=True, slots=True)
class Eviction:
    """Ends a session; *newest* and *oldest* are the protocol versions that a server accepts.

    They are told with INCOMPATIBLE_PROTOCOL only. An unknown *reason* is kept as its number.
    """

    client: bytes
    reason: int
    newest: int = 0
    oldest: int = 0
    size: int = field(default=0, init=False)

    def encode(self) -> bytes:
        """Return the whole frame, 256 bytes."""
        own = _EVICTION.pack(self.client, self.newest, self.oldest, self.reason)
        return _COMMON.pack(HEAD_BYTES, EVICTION).ljust(_BODY_AT, b"\0") + own


def frame_kind(head: bytes) -> tuple[int, int]:
    """Return a frame's size, head included, and its command: REQUEST, REPLY or EVICTION."""
    size, command = _COMMON.unpack_from(head)
    return size, command


def decode_request_head(head: bytes) -> RequestHeader:
    """Return the head of a request, 256 bytes whose command is REQUEST."""
    client, checksum, _, number, operation, session, _, code = _REQUEST.unpack_from(head, _BODY_AT)
    size = frame_kind(head)[0] - HEAD_BYTES
    return RequestHeader(client, operation, size, number, session, code, checksum)


def decode_reply_head(head: bytes) -> ReplyHeader:
    """Return the head of a reply, 256 bytes whose command is REPLY."""
    fields = _REPLY.unpack_from(head, _BODY_AT)
    checksum, client, _, _, _, number, operation, status = fields
    size = frame_kind(head)[0] - HEAD_BYTES
    return ReplyHeader(client, operation, size, number, status, checksum)


def decode_eviction(head: bytes) -> Eviction:
    """Return the eviction that a head is whose command is EVICTION."""
    client, newest, oldest, reason = _EVICTION.unpack_from(head, _BODY_AT)
    return Eviction(client, reason, newest, oldest)
