"""From the append messages of one connection to whole appends, sans I/O
(docs/protocols/pravega.md#appending).

An unconditional append comes in one of three framings: an AppendBlockEnd alone; an AppendBlock
filled exactly, then its end; or a block of announced capacity that closes with a sub-frame, either
the first part of an event whose rest stands in the end, or padding.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from logdrive.errors import LogdriveError
from logdrive.model.framing import EVENT_HEAD, EVENT_HEAD_LAYOUT, Part, frame_event
from logdrive.wire.pravega.appends import (
    PADDING,
    PARTIAL_EVENT,
    AppendBlock,
    AppendBlockEnd,
    ConditionalAppend,
    ConditionalBlockEnd,
    Padding,
    SetupAppend,
)
from logdrive.wire.pravega.layout import Message

_NOT_IN_A_BLOCK: Final = (SetupAppend, AppendBlock, Padding, ConditionalAppend, ConditionalBlockEnd)


class OrderError(LogdriveError):
    """The peer's append messages do not follow each other as they must: close its connection."""


@dataclass(frozen=True, slots=True)
class WholeAppend:
    """One whole append.

    *data* is what the segment receives; *expected_offset* is None for an unconditional one.
    """

    writer: UUID
    number: int
    events: int
    data: Part
    request_id: int
    expected_offset: int | None = None


class Assembler:
    """Follows the append messages of one connection; discard it after an `OrderError`."""

    def __init__(self) -> None:
        self._open: AppendBlock | None = None

    @property
    def buffered(self) -> int:
        """Bytes of a block whose end has not come."""
        return len(self._open.data) if self._open is not None else 0

    def check(self, message: Message) -> None:
        """Refuse what may not stand inside a block; reads, keepalives and the like may.

        Raises `OrderError`.
        """
        if self._open is not None and isinstance(message, _NOT_IN_A_BLOCK):
            raise OrderError(f"a {type(message).__name__} inside a block")

    def take(
        self, message: AppendBlock | AppendBlockEnd | ConditionalAppend | ConditionalBlockEnd
    ) -> WholeAppend | None:
        """Return the append that *message* completes, None for the beginning of one.

        Raises `OrderError`.
        """
        self.check(message)
        match message:
            case AppendBlock():
                self._open = message
                return None
            case AppendBlockEnd():
                block, self._open = self._open, None
                return self._ended(block, message)
            case ConditionalAppend():
                data: Part = frame_event(message.event)
            case ConditionalBlockEnd():
                data = message.data
        return WholeAppend(
            message.writer,
            message.event_number,
            1,
            data,
            message.request_id,
            message.expected_offset,
        )

    def _ended(self, block: AppendBlock | None, end: AppendBlockEnd) -> WholeAppend:
        if end.num_events < 1:
            raise OrderError(f"an append of {end.num_events} events")
        if block is None:
            data: Part = end.data
        elif block.writer != end.writer:
            raise OrderError("a block ended by another writer")
        else:
            data = _joined(block.data, end)
        return WholeAppend(end.writer, end.last_event_number, end.num_events, data, end.request_id)


def _joined(block: bytes, end: AppendBlockEnd) -> bytes:
    """Return the whole events of *block* and, where it closes with a part of one, that part and its
    rest.
    """
    whole = end.size_of_whole_events
    if not 0 <= whole <= len(block):
        raise OrderError(f"{whole} bytes of whole events in a block of {len(block)}")
    if whole == len(block):
        return block  # data in the end means nothing then
    if len(block) - whole < EVENT_HEAD:
        raise OrderError("a block that ends inside a sub-frame")
    kind, size = EVENT_HEAD_LAYOUT.unpack_from(block, whole)
    if size != len(block) - whole - EVENT_HEAD:
        raise OrderError(
            f"a sub-frame of {size} bytes where {len(block) - whole - EVENT_HEAD} are left"
        )
    if kind == PARTIAL_EVENT:
        return b"".join((block[:whole], block[whole + EVENT_HEAD :], end.data))
    if kind == PADDING and not end.data:
        return block[:whole]
    raise OrderError(
        f"a block closed by a sub-frame of type {kind} and {len(end.data)} bytes in its end"
    )
