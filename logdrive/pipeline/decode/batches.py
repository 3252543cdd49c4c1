"""Whole batches in the bytes of a segment, and the ids that the tables know them by."""

import hashlib
from collections.abc import Iterator

from logdrive.model.batch_walker import BatchRef, BatchWalker
from logdrive.model.record_walker import PlacedBatch, walk_records
from logdrive.model.units import OffsetUnit
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES


def walk_batches(segment: str, offset: int, data: bytes) -> Iterator[BatchRef]:
    """Yield the batches that are whole in *data*, which begins at *offset* with a batch.

    Part of a batch at the end of *data* is left out. Raises `StorageError` where no event is.
    """
    walker = BatchWalker(segment, offset, max_event=PRAVEGA_FRAME_BYTES)
    walker.receive_data(data, offset)
    while (batch := walker.next_batch()) is not None:
        yield batch


def place_batches(
    segment: str, offset: int, data: bytes, unit: OffsetUnit
) -> Iterator[PlacedBatch]:
    """Yield the batches that are whole in *data*, with their places there.

    *data* begins at *offset* with a batch; *unit* is what offsets in *segment* count. Part of a
    batch at the end of *data* is left out. Raises `StorageError` where no event is.
    """
    if unit == "records":
        yield from walk_records(segment, offset, data)
        return
    for batch in walk_batches(segment, offset, data):
        yield PlacedBatch(batch, batch.body - offset, batch.next - offset)


def batch_id(segment: str, offset: int, payload: bytes) -> int:
    """Return the 64-bit id of the batch whose header record at *offset* has *payload*.

    It is the same on every reading; the tables `events` and `batches` join on it.
    """
    digest = hashlib.blake2b(
        b"%b\0%d\0%b" % (segment.encode(), offset, payload), digest_size=8
    ).digest()
    return int.from_bytes(digest, "big", signed=True)
