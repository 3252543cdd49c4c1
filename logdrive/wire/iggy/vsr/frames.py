"""Frames of R3, cut out of a byte stream, and built. See docs/protocols/iggy.md#r3-frames."""

from dataclasses import dataclass
from typing import Final

from xxhash import xxh3_64_digest

from logdrive.errors import ProtocolError
from logdrive.model.framing import Part
from logdrive.wire.iggy.commands import COMMAND_BY_CODE, COMMAND_BY_REQUEST, NON_REPLICATED
from logdrive.wire.iggy.limits import COMMAND_BYTES, FRAME_BYTES
from logdrive.wire.iggy.requests import SendMessages
from logdrive.wire.iggy.vsr.headers import (
    EVICTION,
    HEAD_BYTES,
    REPLY,
    REQUEST,
    Eviction,
    ReplyHeader,
    RequestHeader,
    decode_eviction,
    decode_reply_head,
    decode_request_head,
    frame_kind,
)
from logdrive.wire.receive_buffer import ReceiveBuffer

_SEND: Final = COMMAND_BY_REQUEST[SendMessages].operation


@dataclass(frozen=True, slots=True)
class VsrRequest:
    """A request as it came: its *header* and its *body*, which nobody changes."""

    header: RequestHeader
    body: memoryview


@dataclass(frozen=True, slots=True)
class VsrReply:
    """A reply as it came."""

    header: ReplyHeader
    body: memoryview


class VsrRequests:
    """Cuts a client's bytes, split anywhere, into requests; discard it after an error.

    *send_bytes* bounds the body of a send, and never more than COMMAND_BYTES that of any other
    operation. Both are checked when the head is there, before any of the body is kept.
    """

    def __init__(self, send_bytes: int = FRAME_BYTES) -> None:
        self._buffer = ReceiveBuffer()
        self._offset = 0  # of the buffer's front in the client's stream
        self._send_bytes = send_bytes
        self._header: RequestHeader | None = None

    @property
    def buffered(self) -> int:
        """Bytes held that are not part of a frame returned."""
        return self._buffer.size

    @property
    def expected(self) -> RequestHeader | None:
        """Head of the request under way; None until it is there."""
        return self._header

    def receive(self, data: bytes) -> None:
        """Add what the client sent."""
        self._buffer.append_bytes(data)

    def next_request(self) -> VsrRequest | None:
        """Return the next request that is whole, or None. Raises ProtocolError."""
        if self._header is None and not self._read_head():
            return None
        header = self._header
        assert header is not None
        if self._buffer.size < header.size:
            return None
        body = self._buffer.pop_front(header.size) if header.size else memoryview(b"")
        self._offset += header.size
        self._header = None
        return VsrRequest(header, body)

    def _read_head(self) -> bool:
        if self._buffer.size < HEAD_BYTES:
            return False
        head = self._buffer.peek_front(HEAD_BYTES)
        size, command = frame_kind(head)
        if command != REQUEST:
            raise ProtocolError(
                f"a frame of kind {command} instead of a request", offset=self._offset
            )
        header = decode_request_head(head)
        limit = self._send_bytes
        if header.operation != _SEND:
            limit = min(limit, COMMAND_BYTES)
        if not 0 <= header.size <= limit:
            reason = f"a request {header.operation} of {size} bytes; its body may have {limit}"
            raise ProtocolError(reason, offset=self._offset)
        self._buffer.pop_front(HEAD_BYTES)
        self._offset += HEAD_BYTES
        self._header = header
        return True


class VsrReplies:
    """Cuts a server's bytes, split anywhere, into replies; discard it after an error.

    *limit_bytes* bounds a body; it is checked before any of the body is kept.
    """

    def __init__(self, limit_bytes: int = FRAME_BYTES) -> None:
        self._buffer = ReceiveBuffer()
        self._offset = 0
        self._limit = limit_bytes
        self._header: ReplyHeader | None = None

    def receive(self, data: bytes) -> None:
        """Add what the server sent."""
        self._buffer.append_bytes(data)

    def next_reply(self) -> VsrReply | Eviction | None:
        """Return the next reply that is whole, or None. Raises ProtocolError.

        An eviction may come at any time; the connection is of no more use then.
        """
        if self._header is None:
            if self._buffer.size < HEAD_BYTES:
                return None
            evicted = self._read_head()
            if evicted is not None:
                return evicted
        header = self._header
        assert header is not None
        if self._buffer.size < header.size:
            return None
        body = self._buffer.pop_front(header.size) if header.size else memoryview(b"")
        self._offset += header.size
        self._header = None
        return VsrReply(header, body)

    def _read_head(self) -> Eviction | None:
        head = self._buffer.peek_front(HEAD_BYTES)
        size, command = frame_kind(head)
        if command not in (REPLY, EVICTION):
            reason = f"a frame of kind {command} instead of a reply"
            raise ProtocolError(reason, offset=self._offset)
        if not HEAD_BYTES <= size <= HEAD_BYTES + self._limit:
            reason = f"a reply of {size} bytes; its body may have {self._limit}"
            raise ProtocolError(reason, offset=self._offset)
        self._buffer.pop_front(HEAD_BYTES)
        self._offset += HEAD_BYTES
        if command == EVICTION:
            return decode_eviction(head)
        self._header = decode_reply_head(head)
        return None


def encode_vsr_request(
    code: int, body: Part, *, client: bytes, number: int = 0, session: int = 0
) -> bytes:
    """Return the frame of a request whose command has this *code*.

    Its operation is that of the command; metadata operations are sent with a checksum of the body.
    """
    command = COMMAND_BY_CODE.get(code)
    operation = NON_REPLICATED if command is None else command.operation
    header = RequestHeader(
        client,
        operation,
        len(body),
        number,
        session,
        code if operation == NON_REPLICATED else 0,
        request_checksum(body) if _is_summed(operation) else bytes(16),
    )
    return b"".join((header.encode(), body))


def request_checksum(body: Part) -> bytes:
    """Return the checksum of a request's body, as its head has it."""
    return xxh3_64_digest(body)[::-1] + bytes(8)


def _is_summed(operation: int) -> bool:
    """Whether clients send a checksum: at Register, Logout and with metadata, not with messages."""
    return operation != NON_REPLICATED and operation < _SEND


def encode_vsr_reply(request: RequestHeader, body: Part = b"", *, status: int = 0) -> bytes:
    """Return the frame that answers *request*: *body*, or a *status* other than 0 without one.

    The body of an operation that `results.is_result_framed` begins with its result.
    """
    header = ReplyHeader(
        request.client, request.operation, len(body), request.number, status, request.checksum
    )
    return b"".join((header.encode(), body))
