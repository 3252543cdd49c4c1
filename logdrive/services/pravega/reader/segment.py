"""Reads a segment by batches over the network: from header to header, with or without the records
(rules R4, R5).

A header is known by its place only: the segment's start, or where the header before says that the
next one is. A record at such a place that can't be a header is headless: it stands for itself, and
the next event may be a header again.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from zlib import crc32

from logdrive.errors import StorageError
from logdrive.model.batch import BatchHeader, parse_header
from logdrive.model.framing import EVENT_HEAD, event_length
from logdrive.model.limits import HEADER_BYTES, MAX_POSITION, RUN_BYTES
from logdrive.model.pieces import piece_in_header
from logdrive.model.records import KINDS
from logdrive.model.units import KIB
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.errors import RequestRefusedError
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES

_HEAD_GUESS: Final = 4 * KIB  # holds nearly every header
# below it, reading the records too costs less than one more round trip a batch
_SMALL_BATCH: Final = 32 * KIB
_WINDOW: Final = 64 * KIB


@dataclass(frozen=True, slots=True)
class BatchRef:
    """One batch: its header's place, where its records begin, where the next batch does, the CRC-32
    of the header's payload.

    *header* is None for a headless record; *payload* is then that record.
    """

    offset: int
    body: int
    next: int
    crc: int
    header: BatchHeader | None
    payload: bytes


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


def trusted_header(payload: bytes) -> BatchHeader | None:
    """Return the header in *payload*; None where it is headless: unreadable, or with figures that
    no receiver writes.
    """
    if len(payload) > HEADER_BYTES:
        return None
    try:
        header = parse_header(payload)
        if header.kind == "foreign":
            piece_in_header(header)
    except ValueError:
        return None
    if (
        min(header.size, header.records, header.events, header.skipped) < 0
        or header.size > RUN_BYTES
    ):
        return None
    if header.kind == "foreign":
        return header
    placed = (
        header.previous is not None
        and header.position is not None
        and 0 <= header.previous <= header.position < MAX_POSITION
    )
    return header if placed and header.kind in KINDS else None


class SegmentReader:
    """Batches of one segment."""

    def __init__(self, client: SegmentClient, segment: str) -> None:
        self._client, self._segment = client, segment
        self._window, self._window_start = b"", 0

    async def hops(self, start: int, end: int) -> AsyncIterator[BatchRef]:
        """Yield the batches that lie whole in [start, end), *start* being one's place; their
        records stay where they are.

        Costs a round trip a batch of 32 KiB or more, less for smaller ones. Raises `StorageError`
        where there are no events.
        """
        place, small = start, False
        while (
            hop := await self._hop(place, end, _WINDOW if small else _HEAD_GUESS)
        ) is not None and hop.next <= end:
            yield hop
            small = hop.next - place < _SMALL_BATCH
            place = hop.next

    async def batches(self, start: int, end: int) -> AsyncIterator[tuple[BatchRef, bytes]]:
        """Yield the batches that lie whole in [start, end), each with its records, which are empty
        for a headless one.
        """
        data, base = b"", start
        async for piece in self._client.read_range(self._segment, start, end):
            data += piece
            at = 0
            while (hop := self._cut(base + at, data, at)) is not None and hop.next - base <= len(
                data
            ):
                yield hop, data[hop.body - base : hop.next - base]
                at = hop.next - base
            data, base = data[at:], base + at

    async def header_at(self, offset: int, end: int) -> BatchRef | None:
        """Return the batch at *offset*, None where its header does not lie whole before *end*."""
        self._window = b""
        return await self._hop(offset, end, _HEAD_GUESS)

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

    # Single batches ------------------------------------------------------------------------------

    async def _hop(self, place: int, end: int, guess: int) -> BatchRef | None:
        head = await self._bytes(place, EVENT_HEAD, end, guess)
        if head is None:
            return None
        payload = await self._bytes(place + EVENT_HEAD, self._length(place, head), end, 0)
        return None if payload is None else self._made(place, payload)

    def _cut(self, place: int, data: bytes, at: int) -> BatchRef | None:
        body = at + EVENT_HEAD
        if body > len(data):
            return None
        length = self._length(place, data[at:body])
        return None if body + length > len(data) else self._made(place, data[body : body + length])

    def _length(self, place: int, head: bytes) -> int:
        try:
            length = event_length(head)
        except ValueError as error:
            raise StorageError(
                f"{self._segment} at {place}: {error}; it was not written by logdrive"
            ) from error
        if length > PRAVEGA_FRAME_BYTES:
            raise StorageError(
                f"{self._segment} at {place}: an event of {length} bytes; it was not "
                "written by logdrive"
            )
        return length

    def _made(self, place: int, payload: bytes) -> BatchRef:
        header, body = trusted_header(payload), place + EVENT_HEAD + len(payload)
        return BatchRef(
            place,
            body,
            body + (header.size if header is not None else 0),
            crc32(payload),
            header,
            payload,
        )

    async def _bytes(self, place: int, size: int, end: int, guess: int) -> bytes | None:
        """Return *size* bytes from *place*, from the window where it has them, reading at least
        *guess* where it has not.
        """
        if place + size > end:
            return None
        at = place - self._window_start
        if not 0 <= at <= at + size <= len(self._window):
            self._window = await self._read(place, min(max(size, guess), end - place), size)
            self._window_start, at = place, 0
        return self._window[at : at + size]

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
