"""Batches in bytes at hand: `SegmentReader` without the network (rules R4, R5)."""

import hashlib
from collections.abc import Iterator
from zlib import crc32

from logdrive.errors import StorageError
from logdrive.model.framing import EVENT_HEAD, event_length
from logdrive.services.pravega.reader.segment import BatchRef, trusted_header
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES


def walk(segment: str, offset: int, data: bytes) -> Iterator[BatchRef]:
    """Yield the whole batches in *data*, which begins at *offset* with a batch; a part of a batch
    at its end is left out.

    Raises `StorageError` where there are no events.
    """
    at = 0
    while at + EVENT_HEAD <= len(data):
        end = at + EVENT_HEAD + _length(segment, offset + at, data[at : at + EVENT_HEAD])
        if end > len(data):
            return
        payload = data[at + EVENT_HEAD : end]
        header = trusted_header(payload)
        following = end + (header.size if header is not None else 0)
        if following > len(data):
            return
        yield BatchRef(
            offset + at, offset + end, offset + following, crc32(payload), header, payload
        )
        at = following


def _length(segment: str, at: int, head: bytes) -> int:
    try:
        length = event_length(head)
    except ValueError as error:
        raise StorageError(f"{segment} at {at}: {error}; it was not written by logdrive") from error
    if length > PRAVEGA_FRAME_BYTES:
        raise StorageError(
            f"{segment} at {at}: an event of {length} bytes; it was not written by logdrive"
        )
    return length


def batch_id(segment: str, offset: int, payload: bytes) -> int:
    """Return the 64-bit name of the batch with this header, the same on every reading: the tables
    join on it.
    """
    digest = hashlib.blake2b(
        b"%b\0%d\0%b" % (segment.encode(), offset, payload), digest_size=8
    ).digest()
    return int.from_bytes(digest, "big", signed=True)


def records(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the payloads of the events in *data* from *start* to *end*.

    Raises ValueError where they don't fill it exactly.
    """
    at = start
    while at < end:
        body = at + EVENT_HEAD
        if body > end or (at := body + event_length(data[body - EVENT_HEAD : body])) > end:
            raise ValueError("an event does not fit its batch")
        yield data[body:at]
