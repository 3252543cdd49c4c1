"""Boundaries at which a segment can be truncated or read from.

A segment is truncated after a whole batch, as its header says, or after a whole record without a
header (rules R4, S6). Reading begins where an append begins.
"""

from typing import Final

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchWalker
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import HEADER_BYTES
from logdrive.model.units import KIB, MIB
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError, StoreDamagedError
from logdrive.store.index.index import SegmentInfo

_HEADER_GUESS: Final = 4 * KIB
_PIECE: Final = MIB
"""Least size of a piece of a large event.

Clients send an event that is too large for one append in pieces of 8 MiB and a shorter last one, so
a shorter append has no further pieces.
"""
_MAX_EVENT: Final = (1 << 31) - 1
"""Limit on the payload of an event: any length that its head can hold, as other clients write
here, too.
"""
_PIECES: Final = 128
"""Most pieces of one event: the largest event has 1 GiB."""


def boundary_after(store: Store, segment: str, offset: int) -> int:
    """Return where the batch or record that begins at *offset* ends.

    *offset* must be a boundary before the end of *segment*. Only the header is read if the batch
    ends with its append, as all batches of receivers do. Bytes that are not records end with their
    append. Raises `NoSuchSegmentError`, `SegmentTruncatedError`, `StorageError`.
    """
    append = store.append_at(segment, offset)
    end = append.offset + append.length
    info = store.info(segment)
    length = info.length if info is not None else end
    if (
        offset == append.offset
        and _end_of(store.read(segment, offset, _HEADER_GUESS, check=False), offset, length) == end
    ):
        return end
    # the record goes on in later appends, or its header is long: read all of it, and check it
    try:
        head = store.read(segment, offset, EVENT_HEAD + HEADER_BYTES)
    except StoreDamagedError:
        return end
    return _end_of(head, offset, length) or end


def boundary_from(store: Store, segment: str, offset: int) -> int:
    """Return the first offset, at or after *offset*, where an append begins, or the segment's end.

    Never less than the segment's start. Costs a look-up in the index, whatever the segment's
    length. The pieces of a large event count as one append. Raises `NoSuchSegmentError`,
    `StorageError`.
    """
    info = store.info(segment)
    if info is None:
        raise NoSuchSegmentError(segment)
    if offset <= info.start:
        return info.start
    if offset >= info.length:
        return info.length
    append = store.append_at(segment, offset)
    end = offset if append.offset == offset else append.offset + append.length
    return _behind_pieces(store, segment, end, info)


def _behind_pieces(store: Store, segment: str, end: int, info: SegmentInfo) -> int:
    """Return where the event ends that has pieces on both sides of *end*; else *end*."""
    boundary = at = end
    for _ in range(_PIECES):
        if not info.start < at < info.length:
            break
        append = store.append_at(segment, at - 1)
        # too short for a piece that others follow, or the event's beginning is cut off
        if append.length < _PIECE or append.offset < info.start:
            break
        at = append.offset
        event_end = _end_of(store.read(segment, at, EVENT_HEAD, check=False), at, info.length)
        if (
            event_end is not None
            and event_end > end
            and (
                event_end == info.length or store.append_at(segment, event_end).offset == event_end
            )
        ):
            boundary = event_end
    return boundary


def _end_of(head: bytes, offset: int, length: int) -> int | None:
    """Return where the batch or record that begins with *head* at *offset* ends.

    None if it is not a record within a segment of *length*.
    """
    walker = BatchWalker("", offset, max_event=_MAX_EVENT)
    walker.receive_data(head, offset)
    try:
        batch = walker.next_header()
    except StorageError:
        return None
    if batch is not None and batch.next <= length:
        return batch.next

    # headless, or too long for a header to be read: the record stands for itself
    if batch is None and walker.header_bytes == EVENT_HEAD:
        return None  # not even its head is there
    record_end = offset + walker.header_bytes if batch is None else batch.body
    return record_end if record_end <= length else None
