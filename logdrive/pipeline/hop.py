"""Walks a segment from header to header: a header is known by its place only (rule R5)."""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from logdrive.errors import StorageError
from logdrive.limits import HEADER_BYTES, MAX_POSITION, RUN_BYTES
from logdrive.record import EVENT_HEAD, KINDS, BatchHeader, parse_header

_EVENT = struct.Struct("!ii")


@dataclass(frozen=True, slots=True)
class Place:
    """One batch in its segment: where it begins, where the next does, and the CRC-32 of its header's payload.

    *header* is None for a headless record, which stands for itself. *body* is where its records begin.
    """

    offset: int
    body: int
    next: int
    crc: int
    header: BatchHeader | None
    batch: int


def header_end(head: bytes, at: int) -> int:
    """Return where the event whose first 8 bytes are *head* ends. Raises `StorageError` where there is no event."""
    kind, length = _EVENT.unpack(head)
    if kind != 0 or length < 0:
        raise StorageError(f"no event at offset {at} of the segment (type {kind}, length {length}): it was not written by logdrive")
    return at + EVENT_HEAD + int(length)


def place_at(segment: str, offset: int, payload: bytes) -> Place:
    """Return the batch whose first record is *payload*; a record that is no header is a batch by itself."""
    end = offset + EVENT_HEAD + len(payload)
    header = _trusted(payload)
    following = end + (header.size if header is not None else 0)
    return Place(offset, end, following, crc32(payload), header, batch_id(segment, offset, payload))


def _trusted(payload: bytes) -> BatchHeader | None:
    """Return the header in *payload*, or None where it can't be one: unreadable, or with figures that no receiver writes."""
    if len(payload) > HEADER_BYTES:
        return None
    try:
        header = parse_header(payload)
    except ValueError:
        return None
    counts = min(header.size, header.records, header.events, header.skipped) >= 0 and header.size <= RUN_BYTES
    if header.kind == "foreign":
        return header if counts else None
    placed = header.previous is not None and header.position is not None and 0 <= header.previous <= header.position < MAX_POSITION
    return header if counts and placed and header.kind in KINDS else None


def batch_id(segment: str, offset: int, payload: bytes) -> int:
    """Return the 64-bit name of a batch, the same on every reading: the tables join on it."""
    digest = hashlib.blake2b(b"%b\0%d\0%b" % (segment.encode(), offset, payload), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def walk(segment: str, offset: int, data: bytes) -> Iterator[Place]:
    """Yield the whole batches in *data*, which begins at *offset* with a batch; a part of a batch at its end is left out."""
    at = 0
    while at + EVENT_HEAD <= len(data):
        end = header_end(data[at : at + EVENT_HEAD], offset + at) - offset
        if end > len(data):
            return
        place = place_at(segment, offset + at, data[at + EVENT_HEAD : end])
        if place.next - offset > len(data):
            return
        yield place
        at = place.next - offset


def records(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the payloads of the events in *data* from *start* to *end*. Raises ValueError where they don't fill it exactly."""
    at = start
    while at < end:
        if at + EVENT_HEAD > end:
            raise ValueError("an event is cut off by the end of its batch")
        kind, length = _EVENT.unpack_from(data, at)
        at += EVENT_HEAD
        if kind != 0 or not 0 <= length <= end - at:
            raise ValueError("an event does not fit its batch")
        yield data[at : at + length]
        at += length
