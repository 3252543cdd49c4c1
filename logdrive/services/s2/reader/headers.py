"""Reads of an S2 stream that leave most of its records where they are: bounds, and headers."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.units import KIB
from logdrive.services.known_headers import count_known
from logdrive.services.reader import HeaderDigest, SegmentState
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.reader.batches import batch_at, check_place
from logdrive.wire.s2.errors import RangeNotSatisfiableError, S2Error
from logdrive.wire.s2.limits import READ_RECORDS
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import SequencedRecord

# Metered bytes of a read that holds several small batches; of a large batch it holds the header and
# the first records.
_WINDOW: Final = 64 * KIB
_MISSING: Final = ("stream_not_found", "basin_not_found")


async def segment_state(client: S2Client, stream: str, segment: str) -> SegmentState | None:
    """Return the state of *stream*, as of the *segment* that it is; None if there is no stream.

    Raises `TransientError`, and `S2Error` for requests that the service refuses.
    """
    try:
        tail = await client.check_tail(stream)
        first = await _read(client, stream, ReadQuery(seq_num=0, count=1)) if tail.seq_num else ()
    except S2Error as error:
        if error.code in _MISSING:
            return None
        raise
    start = first[0].seq_num if first else tail.seq_num
    # a record that came after the tail was asked for, in a stream that had been trimmed
    length = max(start, tail.seq_num)
    return SegmentState(segment, start, length, sealed=False, modified_ms=tail.timestamp)


async def read_batch_refs(
    client: S2Client, stream: str, start: int, end: int
) -> AsyncIterator[BatchRef]:
    """Yield references to the batches that lie whole in [*start*, *end*), in order.

    *start* must be the offset of a batch. Costs a round trip for each batch of 64 KiB or more, less
    for smaller ones. Raises `StorageError` if records at *start* or behind it are gone.
    """
    while start < end:
        for batch in _batches_in(await _read_at(client, stream, start, end)):
            if batch.next > end:
                return
            yield batch
            start = batch.next


def _batches_in(records: Sequence[SequencedRecord]) -> list[BatchRef]:
    """Return the batches that begin in *records*, the first with the first of them."""
    at, found = 0, list[BatchRef]()
    while at < len(records):
        found.append(batch_at(records[at]))
        at += found[-1].next - found[-1].offset
    return found


async def _read_at(
    client: S2Client, stream: str, start: int, end: int
) -> tuple[SequencedRecord, ...]:
    """Return some of the records [*start*, *end*), the first of them at least."""
    query = ReadQuery(seq_num=start, count=min(end - start, READ_RECORDS), bytes=_WINDOW)
    records = await _read(client, stream, query)
    if not records:  # a record longer than the window
        records = await _read(client, stream, ReadQuery(seq_num=start, count=1))
    check_place(stream, start, records)
    if not records:
        raise StorageError(f"{stream}: there is no record at {start} any more")
    return records


async def count_known_headers(
    client: S2Client, stream: str, marks: Sequence[HeaderDigest], state: SegmentState
) -> int:
    """Return how many of *marks*, from the first on, still match the stream (rule R5).

    *marks* are ordered by offset; few of them are read.
    """
    return await count_known(marks, lambda mark: _matches(client, stream, mark, state))


async def _matches(client: S2Client, stream: str, mark: HeaderDigest, state: SegmentState) -> bool:
    if not state.start <= mark.offset < state.length:
        return False
    records = await _read(client, stream, ReadQuery(seq_num=mark.offset, count=1))
    return any(
        record.seq_num == mark.offset and batch_at(record).crc == mark.crc for record in records
    )


async def _read(client: S2Client, stream: str, query: ReadQuery) -> tuple[SequencedRecord, ...]:
    """Return the records that a unary read finds; none where the tail is."""
    try:
        return (await client.read(stream, query)).records
    except RangeNotSatisfiableError:
        return ()
