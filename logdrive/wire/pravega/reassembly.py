"""Assembles whole appends from the append messages of one connection, sans I/O
(docs/protocols/pravega.md#appending).

An unconditional append has one of three framings:

1. an AppendBlockEnd alone;
2. an AppendBlock that is filled exactly, then its AppendBlockEnd;
3. an AppendBlock that ends with a sub-frame, then its AppendBlockEnd. The sub-frame is either the
   first part of an event whose rest is in the AppendBlockEnd, or padding.
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
    """The peer's append messages come in a wrong order: close its connection."""


@dataclass(frozen=True, slots=True)
class WholeAppend:
    """One whole append."""

    writer: UUID  # id of the writer
    number: int  # number of its last event
    events: int  # events in *data*
    data: Part  # the bytes for the segment
    request_id: int  # for the answer; -1 if the client gave none
    expected_offset: int | None = None  # length of the segment before it; None if unconditional


class Assembler:
    """Follows the append messages of one connection; discard it after an `OrderError`."""

    def __init__(self) -> None:
        self._open: AppendBlock | None = None  # the block whose AppendBlockEnd is to come

    @property
    def buffered_bytes(self) -> int:
        """Bytes of a block whose AppendBlockEnd has not been received."""
        return len(self._open.data) if self._open is not None else 0

    def check_order(self, message: Message) -> None:
        """Raise `OrderError` if *message* is not allowed between a block and its end.

        Reads and KeepAlives, for example, are allowed there.
        """
        if self._open is not None and isinstance(message, _NOT_IN_A_BLOCK):
            raise OrderError(f"a {type(message).__name__} inside a block")

    def receive_append(
        self, message: AppendBlock | AppendBlockEnd | ConditionalAppend | ConditionalBlockEnd
    ) -> WholeAppend | None:
        """Return the append that *message* completes; None if it begins one.

        Raises `OrderError`.
        """
        self.check_order(message)
        match message:
            case AppendBlock():
                self._open = message
                return None
            case AppendBlockEnd():
                block, self._open = self._open, None
                return self._end_block(block, message)
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

    def _end_block(self, block: AppendBlock | None, end: AppendBlockEnd) -> WholeAppend:
        if end.num_events < 1:
            raise OrderError(f"an append of {end.num_events} events")
        # the end alone is a whole append
        if block is None:
            data: Part = end.data
        elif block.writer != end.writer:
            raise OrderError("a block ended by another writer")
        else:
            data = _join_block(block.data, end)
        return WholeAppend(end.writer, end.last_event_number, end.num_events, data, end.request_id)


def _join_block(block: bytes, end: AppendBlockEnd) -> bytes:
    """Return the whole events of *block*, and the event that *block* and *end* share, if any."""
    whole = end.size_of_whole_events
    if not 0 <= whole <= len(block):
        raise OrderError(f"{whole} bytes of whole events in a block of {len(block)}")
    if whole == len(block):
        return block  # data in the AppendBlockEnd has no meaning then

    # the sub-frame after the whole events
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
