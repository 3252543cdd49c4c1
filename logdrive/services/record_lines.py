"""Lines and counts of a segment, for a person (rules R4, R6, R8)."""

from collections.abc import AsyncIterator, Callable

import msgspec

from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef
from logdrive.model.pieces import UnfinishedEvents, WholeEvent, piece_in_header, pieces_within
from logdrive.model.units import OffsetUnit
from logdrive.packs.contents import TextContent, open_batch
from logdrive.packs.faults import PackFault
from logdrive.packs.pack import PackError
from logdrive.services.lines import SegmentContents, foreign_text, record_text
from logdrive.services.reader import SegmentState

ReadBatches = Callable[[int, int], AsyncIterator[tuple[BatchRef, list[bytes]]]]
"""Reads the batches of a segment from one offset to another, each with its records."""
OnFault = Callable[[PackFault], None]
"""Called with a pack that can't be opened: its lines are left out."""


async def count_batches(batches: AsyncIterator[BatchRef], state: SegmentState) -> SegmentContents:
    """Count *batches*, all of the segment in *state*, with their events and sources.

    A record where a header should be counts as a batch, a command record does not.
    """
    count = events = 0
    sources: set[str] = set()
    async for batch in batches:
        count += not batch.command
        if batch.header is not None:
            events += batch.header.events
            sources.add(batch.header.source)
    return SegmentContents(state, count, events, len(sources))


class BatchLines:
    """Makes text of the batches of one segment, given in order."""

    def __init__(
        self, segment: str, read_batches: ReadBatches, unit: OffsetUnit, on_fault: OnFault
    ) -> None:
        """*segment* is for faults. *read_batches* reads the earlier pieces of an event again.

        Offsets count *unit*.
        """
        self._segment = segment
        self._read_batches = read_batches
        self._unfinished = UnfinishedEvents(pieces_within(unit))
        self._on_fault = on_fault

    async def text_of(self, batch: BatchRef, records: list[bytes]) -> bytes:
        """Return the lines of *batch* as they were written; b"" if it has none.

        An event in pieces is in the text of its last piece, a torn batch as what is left of it. Of
        a pack that can't be opened there is no line, since none can be told. Takes memory for the
        content of one pack. Raises what *read_batches* raises.
        """
        if batch.command:
            return b""
        if batch.torn:
            return b"".join(map(record_text, batch.payload.split(b"\n")[1:]))
        if batch.header is None:
            return record_text(batch.payload)
        if batch.header.kind == "data":
            if batch.header.form is not msgspec.UNSET:
                return self._pack_text(batch, batch.header, records)
            return b"".join(map(record_text, records))
        if batch.header.kind != "foreign":
            return b""
        if (piece := piece_in_header(batch.header)) is None:
            return b"".join(map(foreign_text, records))
        whole = self._unfinished.add_piece(
            batch.offset, batch.next, piece.event, piece.start, piece.end, last=piece.last
        )
        return b"" if whole is None else foreign_text(await self._put_together(whole, records))

    def _pack_text(self, batch: BatchRef, header: BatchHeader, records: list[bytes]) -> bytes:
        try:
            content = open_batch(header, b"".join(records))
        except PackError as error:
            self._on_fault(PackFault.of(self._segment, batch, error))
            return b""
        if isinstance(content, TextContent):
            return content.text
        return b"".join(map(record_text, content.records))

    async def _put_together(self, whole: WholeEvent, last: list[bytes]) -> bytes:
        """Return an event that was stored in pieces (rule R6), read again but for the last piece.

        So only one event is in memory at a time.
        """
        parts: list[bytes] = []
        for start, end in whole.extents:
            async for _, records in self._read_batches(start, end):
                parts += records
        return b"".join([*parts, *last])
