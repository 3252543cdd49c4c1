"""The queue of a connection's append path: what is in it, and the replies that its items become.

`Appender` fills the queue, and answers it from its front.
"""

import asyncio
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from logdrive.services.pravega.server.segments.fencing import WriterClaim
from logdrive.store.errors import NoSuchSegmentError, OffsetMismatchError, SegmentSealedError
from logdrive.wire.pravega.appends import ConditionalCheckFailed
from logdrive.wire.pravega.control import InvalidEventNumber, NoSuchSegment, SegmentIsSealed
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.reassembly import WholeAppend

QUEUED_ITEM_BYTES: Final = 512
"""Bytes of memory counted for each item of the queue, beside its data: its Python objects."""


@dataclass(slots=True, eq=False)
class SetUpWriter:
    """A writer set up on this connection."""

    id: UUID
    # full name of the segment that it appends to
    segment: str
    claim: WriterClaim
    # number of the last append submitted
    submitted: int
    # number of the last append acknowledged
    acknowledged: int
    # the reply that refuses one of its appends, while it is in the queue
    refusal: "QueuedReply | None" = None


@dataclass(slots=True, eq=False)
class SubmittedAppend:
    """An append in the queue, without its data.

    The store has the data. Here it would stay in memory until the client reads its acknowledgement.
    """

    writer: SetUpWriter
    number: int
    request_id: int
    # bytes of its data
    size: int
    # done once the append is durable, with the segment's length behind it
    durable: asyncio.Future[int]

    @property
    def cost(self) -> int:
        """Bytes that it counts in the queue."""
        return QUEUED_ITEM_BYTES + self.size


@dataclass(slots=True, eq=False)
class QueuedReply:
    """A reply in the queue that is no acknowledgement."""

    message: Message
    # the writer whose append it refuses
    refuses: SetUpWriter | None = None
    # the client must set that writer up again
    forget: bool = False
    # the connection ends with this reply
    close: bool = False

    @property
    def cost(self) -> int:
        """Bytes that it counts in the queue."""
        return QUEUED_ITEM_BYTES + len(getattr(self.message, "segment", ""))


def refuse_number(append: WholeAppend) -> InvalidEventNumber:
    """Return the message for an append whose number does not fit."""
    return InvalidEventNumber(append.writer, append.request_id, "", append.number)


def refuse_append(writer: SetUpWriter, append: WholeAppend, error: Exception) -> QueuedReply:
    """Return the reply for an append that the store refused with *error*."""
    match error:
        case SegmentSealedError():
            return QueuedReply(
                SegmentIsSealed(append.request_id, writer.segment, "", append.number),
                writer,
                forget=True,
            )
        case NoSuchSegmentError():
            return QueuedReply(
                NoSuchSegment(append.request_id, writer.segment), writer, forget=True
            )
        case OffsetMismatchError():
            return QueuedReply(
                ConditionalCheckFailed(writer.id, append.number, append.request_id), writer
            )
        case _:
            return QueuedReply(refuse_number(append), writer, close=True)
