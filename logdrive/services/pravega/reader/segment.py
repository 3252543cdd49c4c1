"""Reads the batches of a segment over the network, with or without their records (R4, R5).

`SegmentReader` decides what to request; `BatchWalker` finds the batches in the bytes.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchRef, BatchWalker
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.units import KIB
from logdrive.services.known_headers import count_known
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.errors import RequestRefusedError
from logdrive.services.pravega.reader.known_appends import KnownAppends
from logdrive.services.reader import HeaderDigest
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES

_HEAD_GUESS: Final = 4 * KIB  # bytes of a read that hold nearly every header
# After a batch smaller than this, records are read with the headers: that costs less than one more
# round trip for each batch.
_SMALL_BATCH: Final = 32 * KIB
_WINDOW: Final = 64 * KIB  # bytes of a read that is to hold several small batches


class SegmentReader:
    """Reads the batches of one segment with *client*, each call from a given offset."""

    def __init__(self, client: SegmentClient, segment: str) -> None:
        self._client = client
        self._segment = segment

    async def read_batch_refs(self, start: int, end: int) -> AsyncIterator[BatchRef]:
        """Yield references to the batches in [*start*, *end*), without reading all records.

        *start* must be the offset of a batch. A store of ours tells hundreds of headers at once;
        else it costs a round trip for each batch of 32 KiB or more, less for smaller ones. Raises
        `StorageError` if there are no events at an offset.
        """
        known = KnownAppends(self._client, self._segment, end)
        walker, guess = self._walker(start), _HEAD_GUESS
        while True:
            batch = await known.batch_at(walker.position)
            if batch is not None:
                walker = self._walker(batch.next)
            else:
                batch = await self._next_header(walker, end, guess)
            if batch is None or batch.next > end:
                return
            yield batch
            guess = _WINDOW if batch.next - batch.offset < _SMALL_BATCH else _HEAD_GUESS

    async def read_batches(self, start: int, end: int) -> AsyncIterator[tuple[BatchRef, bytes]]:
        """Yield the batches in [*start*, *end*), each with its records.

        *start* must be the offset of a batch. The records of a headless batch are empty.
        """
        walker, place = self._walker(start), start
        async for piece in self._client.read_range(self._segment, start, end):
            walker.receive_data(piece, place)
            place += len(piece)
            while (batch := walker.next_batch()) is not None:
                yield batch, walker.records_of(batch)

    async def read_header(self, offset: int, end: int) -> BatchRef | None:
        """Return the batch at *offset*, None if its header is not complete before *end*."""
        return await self._next_header(self._walker(offset), end, _HEAD_GUESS)

    async def count_known_headers(self, marks: Sequence[HeaderDigest], start: int, end: int) -> int:
        """Return how many of *marks*, from the first on, still match the segment (rule R5).

        *marks* are ordered by offset; the segment is [*start*, *end*). Few of them are read.
        """
        return await count_known(marks, lambda mark: self._matches(mark, start, end))

    async def _matches(self, mark: HeaderDigest, start: int, end: int) -> bool:
        if not start <= mark.offset < end:
            return False
        try:
            batch = await self.read_header(mark.offset, end)
        except StorageError:
            return False  # no event begins there any more
        return batch is not None and batch.crc == mark.crc

    def _walker(self, position: int) -> BatchWalker:
        return BatchWalker(self._segment, position, max_event=PRAVEGA_FRAME_BYTES)

    async def _next_header(self, walker: BatchWalker, end: int, guess: int) -> BatchRef | None:
        """Return the next batch, None if its header is not complete before *end*.

        If the walker has no bytes of the header, at least *guess* bytes are read.
        """
        while (batch := walker.next_header()) is None:
            place, size = walker.position, walker.header_bytes
            if place + size > end:
                return None
            if size == EVENT_HEAD:  # the head is missing; the guess mostly holds the header, too
                data = await self._read(place, min(max(size, guess), end - place), size)
            else:  # a header longer than the guess, or at the end of the bytes read: its payload
                place, size = place + EVENT_HEAD, size - EVENT_HEAD
                data = await self._read(place, size, size)
            walker.receive_data(data, place)
        return batch

    async def _read(self, place: int, wanted: int, needed: int) -> bytes:
        data = (await self._client.read_segment(self._segment, place, wanted)).data
        while len(data) < needed:  # a server may answer with less
            more = (
                await self._client.read_segment(
                    self._segment, place + len(data), needed - len(data)
                )
            ).data
            if not more:
                raise RequestRefusedError(
                    f"segment {self._segment!r} has no bytes at {place + len(data)}"
                )
            data += more
        return data
