"""Batches in a segment whose offsets count records, such as an S2 stream or a partition of Iggy;
sans I/O (rules R4, R5).

There, a header counts one, and each of its batch's records another: so a batch ends as many records
behind its header as the header says, whatever their bytes. In memory and on the way to Spark's
tasks the records are Pravega events, as in a segment whose offsets count bytes. A command record of
S2 (fence, trim) counts one, too; it becomes a frame of the type that Pravega pads with. What an
Iggy that lost messages has left of a batch becomes one frame, whatever number of records it counts.

`walk_records` is to such data what `BatchWalker` is to bytes, but takes whole batches only.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchRef, trusted_header
from logdrive.model.framing import EVENT_HEAD, EVENT_HEAD_LAYOUT, frame_events
from logdrive.model.limits import RUN_RECORDS

_COMMAND: Final = -1  # type of the frame of a command record
_TORN: Final = -2  # type of the frame of a torn batch
_TORN_HEAD: Final = Struct("!QI")  # at its beginning: how many offsets it covers, and its crc


class PlacedBatch(NamedTuple):
    """A batch, and where its framed records are in the data it was found in."""

    batch: BatchRef
    start: int
    end: int


def batch_at_record(offset: int, payload: bytes, *, command: bool = False) -> BatchRef:
    """Return the batch that begins with the record *payload* at *offset*, as in `BatchRef`.

    It is headless if the record is no header, and if the header announces more records than a
    receiver writes. *command*: the record is a command, with any *payload* to know it again by.
    """
    header = None if command else trusted_header(payload)
    if header is not None and header.records > RUN_RECORDS:
        header = None
    body = offset + 1
    following = body if header is None else body + header.records
    return BatchRef(offset, body, following, crc32(payload), header, payload, command)


def torn_batch(offset: int, end: int, payloads: Sequence[bytes]) -> BatchRef:
    """Return what is left of a batch that began at *offset*: *payloads*, the header's first.

    *end* is where the next batch begins. Without payloads, all records from *offset* on are lost.
    """
    crc = crc32(payloads[0]) if payloads else 0
    return BatchRef(offset, end, end, crc, None, b"\n".join(payloads), torn=True)


def frame_batch(batch: BatchRef, records: Sequence[bytes]) -> bytes:
    """Return *batch* with its *records* as `walk_records` takes it."""
    if batch.command:
        return EVENT_HEAD_LAYOUT.pack(_COMMAND, len(batch.payload)) + batch.payload
    if batch.torn:
        head = _TORN_HEAD.pack(batch.next - batch.offset, batch.crc)
        length = len(head) + len(batch.payload)
        return EVENT_HEAD_LAYOUT.pack(_TORN, length) + head + batch.payload
    return frame_events([batch.payload, *records])


def walk_records(segment: str, offset: int, data: bytes) -> Iterator[PlacedBatch]:
    """Yield the batches in *data*, which `frame_batch` made; the first is at *offset*.

    A batch whose records are not all there is left out, with what follows it. Raises `StorageError`
    for data that `frame_batch` did not make. Costs a step of Python for each record.
    """
    at = 0
    while at < len(data):
        kind, start = _frame(segment, offset, data, at)
        payload = data[at + EVENT_HEAD : start]
        batch = (
            _read_torn(segment, offset, payload)
            if kind == _TORN
            else batch_at_record(offset, payload, command=kind == _COMMAND)
        )
        end = start
        for _ in range(batch.next - batch.body):
            if end == len(data):
                return
            _, end = _frame(segment, offset, data, end)
        yield PlacedBatch(batch, start, end)
        offset, at = batch.next, end


def _read_torn(segment: str, offset: int, frame: bytes) -> BatchRef:
    if len(frame) < _TORN_HEAD.size:
        raise StorageError(f"{segment}: the data read from {offset} on is damaged")
    count, crc = _TORN_HEAD.unpack_from(frame)
    end, payload = offset + count, frame[_TORN_HEAD.size :]
    return BatchRef(offset, end, end, crc, None, payload, torn=True)


def _frame(segment: str, offset: int, data: bytes, at: int) -> tuple[int, int]:
    """Return the type of the frame at *at*, and where it ends; *offset* is for the error."""
    end = at + EVENT_HEAD
    kind, length = EVENT_HEAD_LAYOUT.unpack_from(data, at) if end <= len(data) else (0, -1)
    if kind not in (0, _COMMAND, _TORN) or length < 0 or end + length > len(data):
        raise StorageError(f"{segment}: the data read from {offset} on is damaged")
    return kind, end + length
