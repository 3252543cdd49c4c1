"""Frames of the Pravega segment-store protocol, sans I/O: code:i32, length:i32, payload;
big-endian.

To add a message, declare it in `control`, `appends`, `segments`, `tables` or `administration`: the
catalogue below finds it there.
"""

import struct
from collections.abc import Iterator
from types import MappingProxyType, ModuleType
from typing import Final

from logdrive.errors import ProtocolError
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.wire.pravega import administration, appends, control, segments, tables
from logdrive.wire.pravega.arrived import Arrived
from logdrive.wire.pravega.control import WIRE_VERSION, Hello
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES

_HEAD: Final = struct.Struct("!ii")
_JOIN_BELOW: Final = 64 * KIB  # a copy of so few bytes costs less than a longer list of parts


def _messages(*modules: ModuleType) -> dict[int, type[Message]]:
    found: dict[int, type[Message]] = {}
    for made in (value for module in modules for value in vars(module).values()):
        if isinstance(made, type) and issubclass(made, Message) and made is not Message:
            assert found.setdefault(made.code, made) is made, (
                f"message code {made.code} is used twice"
            )
    return found


CATALOGUE: Final = MappingProxyType(_messages(control, appends, segments, tables, administration))
"""Every message that travels, by its code."""


def encode(message: Message, peer_version: int = WIRE_VERSION) -> list[Part]:
    """Return the frame in parts, long ones uncopied; *peer_version* is the highest that the peer's
    Hello named.

    Raises ValueError where it is longer than any peer takes.
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

    A message that arrived in several pieces is copied together; then its data is copied out of it,
    unless it is most of it (`Block`). *peer_version* follows the peer's Hello.
    """

    def __init__(self) -> None:
        self.offset = 0
        """Where in the stream the message returned last began; after an error, where the offending
        frame does.
        """
        self.peer_version = WIRE_VERSION
        self._arrived = Arrived()
        self._next = 0

    @property
    def buffered(self) -> int:
        """Bytes of messages that were not returned yet, as a rule of one that is not complete."""
        return self._arrived.size

    @property
    def taken(self) -> int:
        """Bytes of the message returned last."""
        return self._next - self.offset

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add *data* at once and return an iterator over the messages it completes.

        That raises `ProtocolError`.
        """
        self._arrived.add(data)
        return self._messages()

    def _messages(self) -> Iterator[Message]:
        arrived = self._arrived
        while arrived.size >= _HEAD.size:
            self.offset = self._next
            code, size = _HEAD.unpack(arrived.peek(_HEAD.size))
            kind = self._checked(code, size)  # refused from the header alone
            end = _HEAD.size + size
            if arrived.size < end:
                return
            message = self._decoded(kind, arrived.take(end)[_HEAD.size :])
            self._next += end
            if isinstance(message, Hello):
                self.peer_version = message.high
            yield message

    def _checked(self, code: int, size: int) -> type[Message]:
        kind = CATALOGUE.get(code)
        if kind is None:
            raise ProtocolError(f"unknown message code {code}", offset=self.offset)
        if not 0 <= size <= PRAVEGA_FRAME_BYTES - _HEAD.size:
            raise ProtocolError(
                f"a {kind.__name__} of {size} bytes; a frame holds "
                f"{PRAVEGA_FRAME_BYTES - _HEAD.size}",
                offset=self.offset,
            )
        return kind

    def _decoded(self, kind: type[Message], payload: memoryview) -> Message:
        try:
            message: Message = kind.layout_for(self.peer_version).read(payload)[0]
        except ValueError as error:
            raise ProtocolError(f"a broken {kind.__name__}: {error}", offset=self.offset) from error
        return message
