"""Reads an S2 stream for a person: its counts, and its lines as they were written."""

from collections.abc import AsyncIterator
from functools import partial

from logdrive.errors import TransientError
from logdrive.model.batch_walker import BatchRef
from logdrive.services.lines import SegmentContents
from logdrive.services.reader import SegmentState
from logdrive.services.record_lines import BatchLines, OnFault, count_batches
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.reader.batches import BatchCutter
from logdrive.services.s2.reader.headers import read_batch_refs
from logdrive.services.whole_lines import SourceText
from logdrive.wire.s2.queries import ReadQuery


async def count_contents(client: S2Client, stream: str, state: SegmentState) -> SegmentContents:
    """Count batches, events and sources of a stream; reads little but headers.

    A record where a header should be counts as a batch, a command record does not.
    """
    return await count_batches(read_batch_refs(client, stream, state.start, state.length), state)


async def read_lines(
    client: S2Client, stream: str, state: SegmentState, *, follow: bool, on_fault: OnFault
) -> AsyncIterator[SourceText]:
    """Yield the lines of a stream, in chunks of a batch, in order.

    With *follow* it goes on when batches are appended, for ever. Raises `TransientError` if the
    connection is lost.
    """
    lines = BatchLines(stream, partial(read_batches, client, stream), "records", on_fault)
    end = None if follow else state.length
    async for batch, records in read_batches(client, stream, state.start, end):
        for text in await lines.texts_of(batch, records):
            yield text


async def read_batches(
    client: S2Client, stream: str, start: int, end: int | None
) -> AsyncIterator[tuple[BatchRef, list[bytes]]]:
    """Yield the batches from *start* to *end*, each with its records; None: for ever.

    Both are where batches begin. Goes on over another connection when the service is about to stop.
    Raises `TransientError`, and `StorageError` if records were removed.
    """
    cutter = BatchCutter(stream, start)
    while end is None or cutter.wanted < end:
        count = None if end is None else end - cutter.wanted
        query = ReadQuery(seq_num=cutter.wanted, count=count)
        async with await client.open_read_session(stream, query) as session:
            while not session.advised and (read := await session.next_batch()) is not None:
                cutter.receive_records(read.records)
                while (batch := cutter.next_batch()) is not None:
                    yield batch
            if not session.advised and (end is None or cutter.wanted < end):
                raise TransientError(f"{stream}: the service ended the read at {cutter.wanted}")
