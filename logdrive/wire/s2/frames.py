"""Frames of S2S, the protocol of append and read sessions. See docs/protocols/s2.md#frames.

A frame is `length u24, flags u8, body`, big-endian; length counts flags and body. The body is a
protobuf message, or, in a terminal frame, the error that ends the session.
"""

from typing import Final

import msgspec

from logdrive.wire.receive_buffer import ReceiveBuffer
from logdrive.wire.s2.compression import (
    Compression,
    DecompressionError,
    compress_long,
    decompress,
)
from logdrive.wire.s2.errors import S2Error, bad_frame, parse_error
from logdrive.wire.s2.limits import FRAME_BYTES, FRAME_HEAD_BYTES, MESSAGE_BYTES

# the bits of the flag byte; the others mean nothing
_TERMINAL: Final = 0x80
_COMPRESSION: Final = 0x60
_RECONNECT_ADVISED: Final = 0x10
_COMPRESSION_SHIFT: Final = 5
_STATUS_BYTES: Final = 2


class S2Frame(msgspec.Struct, frozen=True):
    """One frame: a protobuf *message*, decompressed, or the *error* that ends the session.

    *reconnect_advised*: the server is about to stop, the session should move to a new connection.
    """

    message: bytes
    reconnect_advised: bool = False
    error: S2Error | None = None


def encode_frame(
    message: bytes,
    *,
    compression: Compression = Compression.NONE,
    reconnect_advised: bool = False,
) -> bytes:
    """Return the frame of *message*, compressed if it is long enough to gain by it.

    Raises ValueError for a message that no peer would take; appends and batches within their limits
    are shorter.
    """
    if len(message) > MESSAGE_BYTES:
        raise ValueError(f"a message of {len(message)} bytes, over {MESSAGE_BYTES}")
    body, used = compress_long(message, compression)
    if len(body) > MESSAGE_BYTES:  # what can't be compressed may have grown
        body, used = message, Compression.NONE
    flags = used << _COMPRESSION_SHIFT | (_RECONNECT_ADVISED if reconnect_advised else 0)
    return b"".join(((1 + len(body)).to_bytes(FRAME_HEAD_BYTES), bytes((flags,)), body))


def encode_terminal(error: S2Error) -> bytes:
    """Return the frame that ends a session with *error*."""
    body = error.body()
    length = 1 + _STATUS_BYTES + len(body)
    return b"".join(
        (
            length.to_bytes(FRAME_HEAD_BYTES),
            bytes((_TERMINAL,)),
            error.status.to_bytes(_STATUS_BYTES),
            body,
        )
    )


class S2FrameReader:
    """Cuts a byte stream, split anywhere, into frames; discard it after an error.

    Call `receive` with what came, then `next_frame` until it returns None, and `finish` at the
    stream's end. *terminals*: whether the peer may send terminal frames, as only servers may.
    """

    def __init__(self, *, terminals: bool) -> None:
        self._terminals = terminals
        self._arrived = ReceiveBuffer()

    @property
    def held(self) -> int:
        """Bytes received that are not yet returned in a frame."""
        return self._arrived.size

    def receive(self, data: bytes) -> None:
        """Add *data* to what is to be cut."""
        self._arrived.append_bytes(data)

    def next_message_bytes(self) -> int | None:
        """Return how many bytes the message of the next frame may have when it is decompressed.

        None until the frame is whole. Raises `S2Error`, bad_frame. A frame that will be refused is
        refused from its first four bytes, before its body came.
        """
        arrived = self._arrived
        if arrived.size < FRAME_HEAD_BYTES:
            return None
        head = arrived.peek_front(FRAME_HEAD_BYTES + 1)
        length = int.from_bytes(head[:FRAME_HEAD_BYTES])
        if not 1 <= length <= FRAME_BYTES:
            raise bad_frame(f"a frame of {length} bytes: 1 to {FRAME_BYTES} are allowed")
        if len(head) <= FRAME_HEAD_BYTES:
            return None
        self._check_flags(head[FRAME_HEAD_BYTES], length)
        if arrived.size < FRAME_HEAD_BYTES + length:
            return None
        return MESSAGE_BYTES if head[FRAME_HEAD_BYTES] & _COMPRESSION else length - 1

    def next_frame(self) -> S2Frame | None:
        """Return the next frame, or None until there is more. Raises `S2Error`, bad_frame.

        As `next_message_bytes` does, and for a body that can't be decompressed.
        """
        if self.next_message_bytes() is None:
            return None
        length = int.from_bytes(self._arrived.peek_front(FRAME_HEAD_BYTES))
        frame = self._arrived.pop_front(FRAME_HEAD_BYTES + length)
        flags, body = frame[FRAME_HEAD_BYTES], bytes(frame[FRAME_HEAD_BYTES + 1 :])
        if flags & _TERMINAL:
            status = int.from_bytes(body[:_STATUS_BYTES])
            return S2Frame(b"", error=parse_error(status, body[_STATUS_BYTES:]))
        return S2Frame(_message(flags, body), bool(flags & _RECONNECT_ADVISED))

    def finish(self) -> None:
        """Say that the stream has ended; raise `S2Error`, bad_frame, if it did so in a frame."""
        if self._arrived.size:
            raise bad_frame(f"a stream that ends after {self._arrived.size} bytes of a frame")

    def _check_flags(self, flags: int, length: int) -> None:
        if not flags & _TERMINAL:  # else the compression means nothing
            if (flags & _COMPRESSION) >> _COMPRESSION_SHIFT > Compression.GZIP:
                raise bad_frame("a frame with an unknown compression")
        elif not self._terminals:
            raise bad_frame("a terminal frame from a client")
        elif length <= _STATUS_BYTES:
            raise bad_frame("a terminal frame without a status")


def _message(flags: int, body: bytes) -> bytes:
    compression = Compression((flags & _COMPRESSION) >> _COMPRESSION_SHIFT)
    try:
        return decompress(body, compression, MESSAGE_BYTES)
    except DecompressionError as error:
        raise bad_frame(f"a frame with {error}") from error
