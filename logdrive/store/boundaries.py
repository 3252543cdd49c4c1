"""Where a segment may be cut: behind a whole batch, as its header tells, or behind a whole record where there is none (rules R4, S6)."""

from typing import Final

from logdrive.limits import HEADER_BYTES, KIB
from logdrive.record import EVENT_HEAD, event_length, parse_header
from logdrive.store.engine import Store
from logdrive.store.errors import DamagedError

_HEADER_GUESS: Final = 4 * KIB


def boundary_after(store: Store, segment: str, offset: int) -> int:
    """Return where the batch or record ends that begins at *offset*, a boundary before the end of *segment*.

    Where the batch's end is also that of the append, as it is for all that a receiver writes, only its header is read. Bytes that
    are no records end with their append. Raises `NoSuchSegmentError`, `SegmentTruncatedError`, `StorageError`.
    """
    append = store.append_at(segment, offset)
    end = append.offset + append.length
    info = store.info(segment)
    length = info.length if info is not None else end
    if offset == append.offset and _end_of(store.read(segment, offset, _HEADER_GUESS, check=False), offset, length) == end:
        return end
    try:
        head = store.read(segment, offset, EVENT_HEAD + HEADER_BYTES)
    except DamagedError:
        return end
    return _end_of(head, offset, length) or end


def _end_of(head: bytes, offset: int, length: int) -> int | None:
    """Return the end of what begins with *head* at *offset*; None where that is no record of a segment of *length*."""
    if len(head) < EVENT_HEAD:
        return None
    try:
        record_end = offset + EVENT_HEAD + event_length(head[:EVENT_HEAD])
    except ValueError:
        return None
    try:
        batch_end = record_end + max(0, parse_header(head[EVENT_HEAD : record_end - offset]).size)
    except ValueError:
        batch_end = record_end
    if batch_end <= length:
        return batch_end
    return record_end if record_end <= length else None
