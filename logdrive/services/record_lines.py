"""Lines and counts of a segment, for a person (rules R4, R6, R8)."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import msgspec

from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef, trusted_header
from logdrive.model.pieces import UnfinishedEvents, WholeEvent, piece_in_header, pieces_within
from logdrive.model.units import OffsetUnit
from logdrive.packs.contents import TextContent, open_batch
from logdrive.packs.faults import PackFault
from logdrive.packs.pack import PackError
from logdrive.services.lines import SegmentContents, foreign_line, record_text
from logdrive.services.reader import SegmentState
from logdrive.services.whole_lines import SourceText

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

    async def texts_of(self, batch: BatchRef, records: list[bytes]) -> list[SourceText]:
        """Return the lines of *batch* as they were written; [] if it has none.

        The last line may go on in the source's next batch. An event in pieces is in the text of its
        last piece, a torn batch as what is left of it. Of a pack that can't be opened there is no
        line, since none can be told. Takes memory for the content of one pack. Raises what
        *read_batches* raises.
        """
        return [one for one in await self._texts(batch, records) if one.text]

    async def _texts(self, batch: BatchRef, records: list[bytes]) -> Iterable[SourceText]:
        header = batch.header
        if batch.command:
            return ()
        if batch.torn:
            return (_torn_text(batch.payload),)
        if header is None:
            return (SourceText("", record_text(batch.payload)),)
        if header.kind == "data":
            if header.form is not msgspec.UNSET:
                return (SourceText(header.source, self._pack_text(batch, header, records)),)
            return (SourceText(header.source, b"".join(map(record_text, records))),)
        if header.kind != "foreign":
            return ()
        if (piece := piece_in_header(header)) is None:
            return _foreign_texts(header.source, records)
        whole = self._unfinished.add_piece(
            batch.offset, batch.next, piece.event, piece.start, piece.end, last=piece.last
        )
        if whole is None:
            return ()
        return _foreign_texts(header.source, [await self._put_together(whole, records)])

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


def _torn_text(payload: bytes) -> SourceText:
    head, *records = payload.split(b"\n")
    header = trusted_header(head)
    return SourceText("" if header is None else header.source, b"".join(map(record_text, records)))


def _foreign_texts(source: str, records: list[bytes]) -> Iterator[SourceText]:
    for file, lines in groupby(map(foreign_line, records), itemgetter(0)):
        name = f"{source} {file}" if file else source
        yield SourceText(name, b"".join(text for _, text in lines))
