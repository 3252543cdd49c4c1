"""Frames of the classic revisions, R0 to R2C. See docs/protocols/iggy.md#classic-frames.

A request is `length u32, code u32, payload`, where the length counts the code, too; a reply is
`status u32, length u32, payload`. All numbers are little-endian. R3's frames are in
`logdrive.wire.iggy.vsr`; a classic request never begins with four zero bytes, R3's always do.
"""

import struct
from dataclasses import dataclass
from typing import Final

from logdrive.errors import ProtocolError
from logdrive.model.framing import Part
from logdrive.wire.iggy.commands import COMMAND_BY_CODE
from logdrive.wire.iggy.limits import (
    COMMAND_BYTES,
    FRAME_BYTES,
    REPLY_HEAD_BYTES,
    REQUEST_HEAD_BYTES,
)
from logdrive.wire.iggy.requests import SendMessages
from logdrive.wire.receive_buffer import ReceiveBuffer

_HEAD: Final = struct.Struct("<II")
_CODE_BYTES: Final = 4
_LONG_CODES: Final = frozenset(
    code for code, command in COMMAND_BY_CODE.items() if command.request is SendMessages
)


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """A request as it came: the command's *code* and its *payload*, which nobody changes."""

    code: int
    payload: memoryview


@dataclass(frozen=True, slots=True)
class ReplyFrame:
    """A reply as it came; *status* is 0, or an error's code."""

    status: int
    payload: memoryview


def encode_request_frame(code: int, *parts: Part) -> bytes:
    """Return the frame of a request whose payload are the *parts*, one after the other."""
    size = sum(map(len, parts))
    if size > FRAME_BYTES:
        raise ValueError(f"a payload of {size} bytes, over {FRAME_BYTES}")
    return b"".join((_HEAD.pack(_CODE_BYTES + size, code), *parts))


def encode_reply_head(status: int, size: int) -> bytes:
    """Return the head of a reply; its payload of *size* bytes is sent behind it.

    Clients take a payload of one byte for none: there is no such reply.
    """
    return _HEAD.pack(status, size)


def encode_reply_frame(status: int, *parts: Part) -> bytes:
    """Return the frame of a reply whose payload are the *parts*, one after the other."""
    return b"".join((encode_reply_head(status, sum(map(len, parts))), *parts))


class RequestFrames:
    """Cuts a client's bytes, split anywhere, into requests; discard it after an error.

    *send_bytes* bounds the payload of a send, and never more than COMMAND_BYTES that of any other
    command. Both are checked when the head is there, before any of the payload is kept.
    """

    def __init__(self, send_bytes: int = FRAME_BYTES) -> None:
        self._buffer = ReceiveBuffer()
        self._offset = 0  # of the buffer's front in the client's stream
        self._send_bytes = send_bytes
        self._head: tuple[int, int] | None = None  # payload size and code of the request under way

    @property
    def buffered(self) -> int:
        """Bytes held that are not part of a frame returned."""
        return self._buffer.size

    @property
    def expected(self) -> int | None:
        """Size of the payload of the request under way; None until its head is there."""
        return self._head[0] if self._head else None

    def receive(self, data: bytes) -> None:
        """Add what the client sent."""
        self._buffer.append_bytes(data)

    def next_frame(self) -> RequestFrame | None:
        """Return the next request that is whole, or None. Raises ProtocolError."""
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        size, code = self._head
        if self._buffer.size < size:
            return None
        payload = self._buffer.pop_front(size) if size else memoryview(b"")
        self._offset += size
        self._head = None
        return RequestFrame(code, payload)

    def _read_head(self) -> bool:
        if self._buffer.size < REQUEST_HEAD_BYTES:
            return False
        length, code = _HEAD.unpack(self._buffer.peek_front(REQUEST_HEAD_BYTES))
        limit = self._send_bytes if code in _LONG_CODES else min(self._send_bytes, COMMAND_BYTES)
        size = length - _CODE_BYTES
        if not 0 <= size <= limit:
            reason = f"a request {code} of {length} bytes; its payload may have {limit}"
            raise ProtocolError(reason, offset=self._offset)
        self._buffer.pop_front(REQUEST_HEAD_BYTES)
        self._offset += REQUEST_HEAD_BYTES
        self._head = size, code
        return True


class ReplyFrames:
    """Cuts a server's bytes, split anywhere, into replies; discard it after an error.

    *limit_bytes* bounds a payload; it is checked before any of the payload is kept.
    """

    def __init__(self, limit_bytes: int = FRAME_BYTES) -> None:
        self._buffer = ReceiveBuffer()
        self._offset = 0
        self._limit = limit_bytes
        self._head: tuple[int, int] | None = None  # status and payload size of the reply under way

    def receive(self, data: bytes) -> None:
        """Add what the server sent."""
        self._buffer.append_bytes(data)

    def next_frame(self) -> ReplyFrame | None:
        """Return the next reply that is whole, or None. Raises ProtocolError."""
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        status, size = self._head
        if self._buffer.size < size:
            return None
        payload = self._buffer.pop_front(size) if size else memoryview(b"")
        self._offset += size
        self._head = None
        return ReplyFrame(status, payload)

    def _read_head(self) -> bool:
        if self._buffer.size < REPLY_HEAD_BYTES:
            return False
        status, size = _HEAD.unpack(self._buffer.peek_front(REPLY_HEAD_BYTES))
        if size > self._limit:
            reason = f"a reply of {size} bytes; it may have {self._limit}"
            raise ProtocolError(reason, offset=self._offset)
        self._buffer.pop_front(REPLY_HEAD_BYTES)
        self._offset += REPLY_HEAD_BYTES
        self._head = status, size
        return True
