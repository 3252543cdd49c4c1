"""Decodes the bytes of a segment into rows of the two bronze tables; no Spark, no I/O.

`Decoder.decode_batches` takes whole batches, `Decoder.take_tables` returns the rows since the last
call as Arrow tables, so that a writer chooses the size of row groups. Text in packs and in blocks
costs no Python per line; the other forms cost one JSON parse per record.
"""

from collections.abc import Sequence

import pyarrow as pa
from msgspec import UNSET

from logdrive.model.batch import BatchHeader
from logdrive.model.framing import EVENT_HEAD, frame_events, split_events
from logdrive.model.pieces import EventPiece, piece_in_header
from logdrive.model.record_walker import PlacedBatch
from logdrive.model.units import KIB, MIB, OffsetUnit
from logdrive.packs.contents import RecordsContent, open_batch
from logdrive.packs.pack import PackError
from logdrive.pipeline.decode.batches import place_batches
from logdrive.pipeline.decode.blocks import BlockText, parse_block, scan_block
from logdrive.pipeline.decode.coverage import subtract, union
from logdrive.pipeline.decode.event_columns import EventColumns, events_table
from logdrive.pipeline.decode.headers import BatchRow, HeaderRows
from logdrive.pipeline.decode.lines import split_lengths, split_lines
from logdrive.pipeline.decode.records import BLOCK, TEXT, SingleEvents, parse_record
from logdrive.pipeline.decode.schema import (
    EVENTS,
    FOREIGN,
    HEADLESS,
    HEADLESS_ROW,
    INCOMPLETE,
    MALFORMED,
    TORN,
)

HELD_BYTES = 64 * MIB
"""Limit on the rows that a decoder holds, if its caller names none; one batch may exceed it."""
_TOGETHER_BYTES = 256 * KIB  # limit on the text that is cut into lines at once, unless it is one
_ROW_BYTES = 128  # memory of a row, about, besides its text: most of it while a table is made


class Decoder:
    """Decodes the batches of one stream, in order.

    Rows must stay in the order of the events, though texts and single events become rows in
    different ways: so only one of `_texts` and `_singles` has pending events at a time.
    """

    def __init__(
        self,
        stream: str,
        unit: OffsetUnit = "bytes",
        held_bytes: int = HELD_BYTES,
        columns: Sequence[str] = tuple(EVENTS.names),
    ) -> None:
        """Decode batches of *stream*, whose offsets count *unit*, into *columns* of `events`.

        At most *held_bytes* of rows are held, and those of one batch more.
        """
        self._rows = HeaderRows(stream)
        self._names = columns
        self._most = held_bytes
        self._unit = unit
        # header rows since the last `take_tables`
        self._batches: list[BatchRow] = []
        # events since the last `take_tables`, without the pending ones
        self._columns = EventColumns()
        # pending events that are no text
        self._singles = SingleEvents()
        # pending text of packs and blocks: text, its start in the file, its batch, its form
        self._texts: list[tuple[bytes, int, BatchRow, str]] = []
        # bytes of the pending text
        self._text_size = 0
        # pieces of the event that ends next, from batches before
        self._recalled: list[tuple[EventPiece, bytes]] = []
        # memory of what was decoded since the last `take_tables`
        self._held = 0

    @property
    def is_full(self) -> bool:
        """True if no more is decoded until the rows are taken."""
        return self._held >= self._most

    def recall_pieces(self, segment: str, offset: int, data: bytes) -> None:
        """Take the earlier pieces of an event before its last piece is decoded (rule R6).

        *data* are whole batches from *offset* on, which may be anywhere before in the segment.
        """
        for batch, start, end in place_batches(segment, offset, data, self._unit):
            if batch.header is None or batch.header.kind != FOREIGN:
                continue  # another source's batch between the pieces
            if (piece := piece_in_header(batch.header)) is not None:
                self._recalled.append((piece, data[start + EVENT_HEAD : end]))
        self._held += len(data)

    def decode_batches(self, segment: str, offset: int, data: bytes) -> tuple[int, int]:
        """Decode the whole batches in *data*, which begins with one.

        *offset* is the place of *data* in *segment*. Returns where the next batch begins: its place
        in *segment*, and that in *data*. Stops where it is full. Part of a batch at the end is
        left: pass it again, with what follows it. Raises `StorageError` where no event is.
        """
        following, used = offset, 0
        for placed in place_batches(segment, offset, data, self._unit):
            if self.is_full:
                break
            row = self._rows.make_row(segment, placed.batch)
            self._batches.append(row)
            # a pack adds what is in it
            self._held += placed.end - used + _ROW_BYTES * row.events
            self._decode(placed, row, data)
            following, used = placed.batch.next, placed.end
        return following, used

    def take_tables(self) -> tuple[pa.Table, list[BatchRow]]:
        """Return the rows of `events`, and of `batches`, since the last call."""
        self._flush_pending()
        table = events_table(self._columns, self._batches, self._names)
        batches, self._batches, self._columns, self._held = self._batches, [], EventColumns(), 0
        return table, batches

    def _flush_pending(self) -> None:
        """Turn the pending events into columns."""
        if self._singles:
            self._columns.add_singles(self._singles)
            self._singles = SingleEvents()
        if self._texts:
            texts, starts, rows, forms = zip(*self._texts, strict=True)
            lines, counts = split_lines(texts, starts)
            self._columns.add_lines(lines, forms[0])
            for row, count in zip(rows, counts.tolist(), strict=True):
                row.rows += count
            self._texts, self._text_size = [], 0

    def _next_single(self, row: BatchRow) -> SingleEvents:
        """Return the collector for the next event of *row*, which is not from a text."""
        if self._texts:
            self._flush_pending()
        row.rows += 1
        return self._singles

    def _add_text(self, text: bytes, start: int, row: BatchRow, form: str) -> None:
        """Add lines of a pack or a block, which begin at *start* in their file."""
        if self._singles or (
            self._texts
            and (self._text_size + len(text) > _TOGETHER_BYTES or self._texts[-1][-1] != form)
        ):
            self._flush_pending()
        self._texts.append((text, start, row, form))
        self._text_size += len(text)

    def _add_cut_text(
        self,
        text: bytes,
        start: int,
        end: int,
        lengths: Sequence[int],
        row: BatchRow,
        form: str,
    ) -> None:
        """Add the events of a text with *lengths*, from *start* to *end* in their file.

        Raises ValueError if the lengths do not fit.
        """
        lines, dropped = split_lengths(text, start, lengths)
        if max([start, *lines.stops[-1:], *(stop for _, stop in dropped[-1:])]) != end:
            raise ValueError("lengths do not end where their record does")
        if form == BLOCK and lines.originals:
            raise ValueError("lengths cut a character in two")
        row.dropped += dropped
        self._flush_pending()  # rows stay in the order of the events
        self._columns.add_lines(lines, form)
        row.rows += len(lines.starts)

    def _decode(self, placed: PlacedBatch, row: BatchRow, data: bytes) -> None:
        """Decode one batch of *data*."""
        batch, start, end = placed
        if row.kind in (HEADLESS, TORN):
            flag = TORN if row.kind == TORN else HEADLESS_ROW
            self._next_single(row).add_quarantined(batch.payload, flag)
            return
        if row.kind not in ("data", FOREIGN):  # marks are in the header, so there is no row
            return
        try:
            payloads = list(split_events(data, start, end))
        except ValueError:
            self._next_single(row).add_quarantined(data[start:end], MALFORMED)
            return
        if batch.header is not None and batch.header.form is not UNSET:
            self._decode_pack(batch.header, payloads, row)
            return

        if (
            batch.header is not None
            and row.kind == FOREIGN
            and (piece := piece_in_header(batch.header)) is not None
        ):
            if piece.last:  # the other pieces were recalled before, and are no rows by themselves
                self._put_together(piece, payloads, row)
            return

        for payload in payloads:
            if row.kind == FOREIGN:
                self._decode_foreign(payload, row)
            else:
                self._decode_own(payload, row)
        self._note_dropped(row)

    def _decode_pack(self, header: BatchHeader, payloads: list[bytes], row: BatchRow) -> None:
        """Decode the pack that is the one record of a batch (rule R8)."""
        pack = payloads[0] if len(payloads) == 1 else frame_events(payloads)
        try:
            if len(payloads) != 1:
                raise PackError(f"a batch of {len(payloads)} records, and not of one pack")
            content = open_batch(header, pack)
        except PackError as error:
            self._next_single(row).add_damaged(pack, str(error))
            return

        start, end = header.previous or 0, header.position or 0  # a header of a pack has both
        if isinstance(content, RecordsContent):
            self._held += sum(map(len, content.records))
            for record in content.records:
                self._decode_packed_record(record, row)
            self._note_dropped(row)
            return
        self._held += len(content.text)
        if content.lengths is None:
            self._add_text(content.text, start, row, TEXT)
        else:
            self._add_cut_text(content.text, start, end, content.lengths, row, TEXT)

    def _decode_packed_record(self, record: bytes, row: BatchRow) -> None:
        """Decode one record of a pack, which is one event."""
        value = parse_record(record)
        if type(value) is not dict:
            self._next_single(row).add_quarantined(record, str(value))
        elif type(log := value.get("log")) is dict and "lines" in log:
            self._next_single(row).add_quarantined(record, MALFORMED)  # a block: several events
        else:
            self._next_single(row).add_own(record, value)

    def _note_dropped(self, row: BatchRow) -> None:
        """Note what the single events of one batch have left out, where it says that they did.

        That is what lies between them. Blocks say it by their lengths.
        """
        if row.kind != "data" or not row.skipped or row.dropped or len(self._singles) < row.rows:
            return
        previous, position = row.previous or 0, row.position or 0
        kept = self._singles.last_intervals(row.rows)
        row.dropped += subtract([(previous, position)], union(kept))

    def _put_together(self, last: EventPiece, payloads: list[bytes], row: BatchRow) -> None:
        """Decode the event whose last piece is *last*, with the record *payloads* (rule R6).

        The pieces before it were recalled.
        """
        at, parts = 0, list[bytes]()
        for piece, payload in [*self._recalled, *((last, payload) for payload in payloads)]:
            # pieces of other events are skipped, and those that were appended twice
            if (piece.event, piece.start) == (last.event, at):
                at, parts = piece.end, [*parts, payload]
        self._recalled, event = [], b"".join(parts)
        # pieces are missing: they were cut off before they were read
        if at != last.bytes or len(event) != at:
            self._next_single(row).add_quarantined(b"".join(payloads), INCOMPLETE)
        else:
            self._decode_foreign(event, row)

    def _decode_foreign(self, payload: bytes, row: BatchRow) -> None:
        """Decode one record of another shipper, which is one event."""
        value = parse_record(payload)
        if type(value) is dict:
            self._next_single(row).add_foreign(payload, value)
        else:
            self._next_single(row).add_quarantined(payload, str(value))

    def _decode_own(self, payload: bytes, row: BatchRow) -> None:
        """Decode one record of our own agents: a block, or a single event."""
        if (block := scan_block(payload)) is not None:
            self._add_text(block.text, block.start, row, BLOCK)
            return
        value = parse_record(payload)
        if type(value) is not dict:
            self._next_single(row).add_quarantined(payload, str(value))
        elif type(log := value.get("log")) is not dict or "lines" not in log:
            self._next_single(row).add_own(payload, value)
        else:
            try:
                self._add_block(parse_block(value, log), row)
            except ValueError:
                self._next_single(row).add_quarantined(payload, MALFORMED)

    def _add_block(self, block: BlockText, row: BatchRow) -> None:
        """Add the events of *block*. Raises ValueError if its lengths do not fit."""
        text, start, end, lengths = block
        if lengths is None:
            self._add_text(text, start, row, BLOCK)
        else:
            self._add_cut_text(text, start, end, lengths, row, BLOCK)
