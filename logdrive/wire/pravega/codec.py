"""Frames of the Pravega segment-store protocol, sans I/O: code:i32, length:i32, payload;
big-endian.

To add a message, declare it in `control`, `appends`, `segments`, `tables`, `administration` or
`own`: `MESSAGE_TYPES` collects the classes from there.
"""

import struct
from collections.abc import Iterator
from types import MappingProxyType, ModuleType
from typing import Final

from logdrive.errors import ProtocolError
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.wire.pravega import administration, appends, control, own, segments, tables
from logdrive.wire.pravega.control import WIRE_VERSION, Hello
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES
from logdrive.wire.receive_buffer import ReceiveBuffer

_HEAD: Final = struct.Struct("!ii")
_JOIN_BELOW: Final = 64 * KIB  # copying a shorter frame costs less than handling its parts


def _message_types(*modules: ModuleType) -> dict[int, type[Message]]:
    types: dict[int, type[Message]] = {}
    for kind in (value for module in modules for value in vars(module).values()):
        if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message:
            assert types.setdefault(kind.code, kind) is kind, (
                f"message code {kind.code} is used twice"
            )
    return types


MESSAGE_TYPES: Final = MappingProxyType(
    _message_types(control, appends, segments, tables, administration, own)
)
"""The class of each message, by its code."""


def encode(message: Message, peer_version: int = WIRE_VERSION) -> list[Part]:
    """Return the frame of *message* in parts; long parts are not copied.

    *peer_version* is the highest wire version in the peer's Hello. Raises ValueError if the frame
    is longer than the protocol allows.
    """
    parts: list[Part] = [b""]
    message.layout_for(peer_version).write(message, parts)
    size = sum(map(len, parts))
    if _HEAD.size + size > PRAVEGA_FRAME_BYTES:
        raise ValueError(
            f"a {type(message).__name__} of {size} bytes; a frame holds "
            f"{PRAVEGA_FRAME_BYTES - _HEAD.size}"
        )
    parts[0] = _HEAD.pack(message.code, size)
    return parts if size > _JOIN_BELOW else [b"".join(parts)]


class MessageReader:
    """Cuts a byte stream, split anywhere, into messages; discard it after an error.

    A message that was received in several pieces is joined. Its data is copied out of it, unless
    the data is most of the message (`fields.Block`).
    """

    def __init__(self) -> None:
        self.offset = 0
        """Stream offset of the last returned message or, after an error, of the offending frame."""
        self.peer_version = WIRE_VERSION
        """The highest wire version in the peer's Hello, once it was received."""
        self._arrived = ReceiveBuffer()  # bytes of messages that were not returned
        self._next = 0  # stream offset of the next message

    @property
    def buffered_bytes(self) -> int:
        """Received bytes that were not returned yet: as a rule, of one incomplete message."""
        return self._arrived.size

    @property
    def message_bytes(self) -> int:
        """Size of the last returned message, its header included."""
        return self._next - self.offset

    def receive_data(self, data: bytes) -> Iterator[Message]:
        """Add *data*, and return an iterator over the messages that are complete.

        *data* is added before the iterator is used. The iterator raises `ProtocolError` for an
        unknown code, a frame over the limit, or a payload that can't be decoded.
        """
        self._arrived.append_bytes(data)
        return self._messages()

    def _messages(self) -> Iterator[Message]:
        arrived = self._arrived
        while arrived.size >= _HEAD.size:
            self.offset = self._next
            code, size = _HEAD.unpack(arrived.peek_front(_HEAD.size))
            kind = self._message_type(code, size)  # refused from the header alone
            end = _HEAD.size + size
            if arrived.size < end:
                return
            message = self._decode(kind, arrived.pop_front(end)[_HEAD.size :])
            self._next += end
            # layouts of later messages depend on it
            if isinstance(message, Hello):
                self.peer_version = message.high
            yield message

    def _message_type(self, code: int, size: int) -> type[Message]:
        kind = MESSAGE_TYPES.get(code)
        if kind is None:
            raise ProtocolError(f"unknown message code {code}", offset=self.offset)
        if not 0 <= size <= PRAVEGA_FRAME_BYTES - _HEAD.size:
            raise ProtocolError(
                f"a {kind.__name__} of {size} bytes; a frame holds "
                f"{PRAVEGA_FRAME_BYTES - _HEAD.size}",
                offset=self.offset,
            )
        return kind

    def _decode(self, kind: type[Message], payload: memoryview) -> Message:
        try:
            message: Message = kind.layout_for(self.peer_version).read(payload)[0]
        except ValueError as error:
            raise ProtocolError(f"a broken {kind.__name__}: {error}", offset=self.offset) from error
        return message
