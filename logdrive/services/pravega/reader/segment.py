"""Reads a segment by batches over the network: from header to header, with or without the records
(rules R4, R5). `BatchWalker` finds the batches in what was read.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchRef, BatchWalker
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.units import KIB
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.errors import RequestRefusedError
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES

_HEAD_GUESS: Final = 4 * KIB  # holds nearly every header
# below it, reading the records too costs less than one more round trip a batch
_SMALL_BATCH: Final = 32 * KIB
_WINDOW: Final = 64 * KIB


class HeaderDigest(Protocol):
    """What a reader keeps of a header that it has read, to know it again."""

    @property
    def offset(self) -> int:
        """Its place."""
        ...

    @property
    def crc(self) -> int:
        """The CRC-32 of its payload."""
        ...


class SegmentReader:
    """Batches of one segment."""

    def __init__(self, client: SegmentClient, segment: str) -> None:
        self._client = client
        self._segment = segment

    async def hops(self, start: int, end: int) -> AsyncIterator[BatchRef]:
        """Yield the batches that lie whole in [start, end), *start* being one's place; their
        records stay where they are.

        Costs a round trip a batch of 32 KiB or more, less for smaller ones. Raises `StorageError`
        where there are no events.
        """
        walker, guess = self._walker(start), _HEAD_GUESS
        while (
            batch := await self._next_header(walker, end, guess)
        ) is not None and batch.next <= end:
            yield batch
            guess = _WINDOW if batch.next - batch.offset < _SMALL_BATCH else _HEAD_GUESS

    async def batches(self, start: int, end: int) -> AsyncIterator[tuple[BatchRef, bytes]]:
        """Yield the batches that lie whole in [start, end), each with its records, which are empty
        for a headless one.
        """
        walker, place = self._walker(start), start
        async for piece in self._client.read_range(self._segment, start, end):
            walker.receive_data(piece, place)
            place += len(piece)
            while (batch := walker.next_batch()) is not None:
                yield batch, walker.records_of(batch)

    async def header_at(self, offset: int, end: int) -> BatchRef | None:
        """Return the batch at *offset*, None where its header does not lie whole before *end*."""
        return await self._next_header(self._walker(offset), end, _HEAD_GUESS)

    async def last_match(self, marks: Sequence[HeaderDigest], start: int, end: int) -> int:
        """Return how many of *marks*, in order of place, from the first on are still what the
        segment says (rule R5).

        A store that was restored from a backup agrees with a reader up to some place and not
        beyond; few of the marks are read.
        """
        low, high = 0, len(marks)
        while low < high:
            # nearly always the last one matches
            middle = high - 1 if high == len(marks) else (low + high) // 2
            if await self._matches(marks[middle], start, end):
                low = middle + 1
            else:
                high = middle
        return low

    async def _matches(self, mark: HeaderDigest, start: int, end: int) -> bool:
        if not start <= mark.offset < end:
            return False
        try:
            found = await self.header_at(mark.offset, end)
        except StorageError:
            return False  # no event begins there any more
        return found is not None and found.crc == mark.crc

    def _walker(self, position: int) -> BatchWalker:
        return BatchWalker(self._segment, position, max_event=PRAVEGA_FRAME_BYTES)

    async def _next_header(self, walker: BatchWalker, end: int, guess: int) -> BatchRef | None:
        """Return the next batch, None where its header does not lie whole before *end*.

        Where the walker has no bytes of it, at least *guess* bytes are read at once.
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
        data = (await self._client.read(self._segment, place, wanted)).data
        while len(data) < needed:  # a server may answer with less
            more = (
                await self._client.read(self._segment, place + len(data), needed - len(data))
            ).data
            if not more:
                raise RequestRefusedError(
                    f"segment {self._segment!r} has no bytes at {place + len(data)}"
                )
            data += more
        return data
