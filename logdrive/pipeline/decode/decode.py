"""Bytes of a segment in, rows of the two bronze tables out: no Spark, no I/O.

`Decoder.feed` takes whole batches and `Decoder.take` gives what has come together as Arrow tables,
so that a writer makes row groups of the size it likes. Text in blocks costs no Python per line, the
other forms cost one JSON parse per record.
"""

from typing import Any

import pyarrow as pa

from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import EVENT_HEAD, split_events
from logdrive.model.limits import MAX_POSITION
from logdrive.model.pieces import EventPiece, piece_of
from logdrive.model.units import KIB
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.decode.blocks import LINE_ENDS, NONE, split_lengths, split_lines
from logdrive.pipeline.decode.event_columns import EventColumns, events_table
from logdrive.pipeline.decode.headers import BatchRow, HeaderRows
from logdrive.pipeline.decode.records import SingleEvents, parse_record
from logdrive.pipeline.decode.schema import FOREIGN, HEADLESS, HEADLESS_ROW, INCOMPLETE, MALFORMED

_TOGETHER_BYTES = 256 * KIB  # text that is cut into lines at one time


class Decoder:
    """Decodes the batches of one stream, in the order in which they are fed."""

    def __init__(self, stream: str) -> None:
        self._rows = HeaderRows(stream)
        self._columns = EventColumns()
        self._singles = SingleEvents()
        self._texts: list[tuple[bytes, int, BatchRow]] = []
        self._waiting = 0
        self._batches: list[BatchRow] = []
        self._recalled: list[tuple[EventPiece, bytes]] = []
        self.text_bytes = 0

    def recall_pieces(self, segment: str, offset: int, data: bytes) -> None:
        """Take whole batches from elsewhere in the segment, pieces of the event whose last piece is
        fed next (rule R6).
        """
        for hop in walk_batches(segment, offset, data):
            piece = (
                piece_of(hop.header)
                if hop.header is not None and hop.header.kind == FOREIGN
                else None
            )
            if piece is not None:
                self._recalled.append(
                    (piece, data[hop.body + EVENT_HEAD - offset : hop.next - offset])
                )
        self.text_bytes += len(data)

    def decode_batches(self, segment: str, offset: int, data: bytes) -> int:
        """Decode the whole batches in *data*, which begins at *offset* with one; return where the
        next one begins.
        """
        following = offset
        for hop in walk_batches(segment, offset, data):
            row = self._rows.make_row(segment, hop)
            self._batches.append(row)
            self._decode(hop, row, data, offset)
            following = hop.next
        self.text_bytes += following - offset
        return following

    def take_tables(self) -> tuple[pa.Table, list[BatchRow]]:
        """Return the event rows and headers since the last call."""
        self._flush_pending()
        table = events_table(self._columns, self._batches)
        batches, self._batches, self._columns, self.text_bytes = (
            self._batches,
            [],
            EventColumns(),
            0,
        )
        return table, batches

    def _flush_pending(self) -> None:
        """Turn what waits into columns; singles and texts never wait both."""
        if self._singles:
            self._columns.add_singles(self._singles)
            self._singles = SingleEvents()
        if self._texts:
            texts, starts, rows = zip(*self._texts, strict=True)
            lines, counts = split_lines(texts, starts)
            self._columns.add_lines(lines)
            for row, count in zip(rows, counts.tolist(), strict=True):
                row.rows += count
            self._texts, self._waiting = [], 0

    def _single(self, row: BatchRow) -> SingleEvents:
        """Return what takes the next event, a single one."""
        if self._texts:
            self._flush_pending()
        row.rows += 1
        return self._singles

    def _text(self, text: bytes, start: int, row: BatchRow) -> None:
        if self._singles or (self._texts and self._waiting + len(text) > _TOGETHER_BYTES):
            self._flush_pending()
        self._texts.append((text, start, row))
        self._waiting += len(text)

    def _decode(self, hop: BatchRef, row: BatchRow, data: bytes, base: int) -> None:
        """Decode one batch of *data*, which begins at *base*."""
        start, end = hop.body - base, hop.next - base
        if row.kind == HEADLESS:
            self._single(row).add_quarantined(hop.payload, HEADLESS_ROW)
            return
        if row.kind not in ("data", FOREIGN):
            return
        try:
            payloads = list(split_events(data, start, end))
        except ValueError:
            self._single(row).add_quarantined(data[start:end], MALFORMED)
            return
        if (
            hop.header is not None
            and row.kind == FOREIGN
            and (piece := piece_of(hop.header)) is not None
        ):
            if piece.last:
                self._put_together(piece, payloads, row)
            return
        take = self._foreign if row.kind == FOREIGN else self._own
        for payload in payloads:
            value = parse_record(payload)
            if type(value) is dict:
                take(payload, value, row)
            else:
                self._single(row).add_quarantined(payload, str(value))

    def _put_together(self, last: EventPiece, payloads: list[bytes], row: BatchRow) -> None:
        """Decode the event that *last* ends, of which *payloads* is the rest; the recalled pieces
        go before it (rule R6).
        """
        at, parts = 0, list[bytes]()
        for piece, payload in [*self._recalled, *((last, payload) for payload in payloads)]:
            if (piece.event, piece.start) == (last.event, at):
                at, parts = piece.end, [*parts, payload]
        self._recalled, event = [], b"".join(parts)
        # the first ones were cut off before they were read
        if at != last.bytes or len(event) != at:
            self._single(row).add_quarantined(b"".join(payloads), INCOMPLETE)
        elif type(value := parse_record(event)) is dict:
            self._foreign(event, value, row)
        else:
            self._single(row).add_quarantined(event, str(value))

    def _foreign(self, payload: bytes, value: dict[str, Any], row: BatchRow) -> None:
        self._single(row).add_foreign(payload, value)

    def _own(self, payload: bytes, value: dict[str, Any], row: BatchRow) -> None:
        """Decode one record of our own agent: a block, or a single event."""
        log = value.get("log")
        if type(log) is not dict or "lines" not in log:
            self._single(row).add_own(payload, value)
            return
        try:
            self._block(value, log, row)
        except ValueError:
            self._single(row).add_quarantined(payload, MALFORMED)

    def _block(self, value: dict[str, Any], log: dict[str, Any], row: BatchRow) -> None:
        """Decode a block (rule R1). Raises ValueError where its figures contradict its text."""
        message, start, end = value.get("message"), log.get("offset"), log.get("end")
        if not (
            isinstance(message, str)
            and isinstance(start, int)
            and isinstance(end, int)
            and 0 <= start < end < MAX_POSITION
        ):
            raise ValueError("a block without text or positions")
        text = message.encode()
        if (lengths := value.get("lengths")) is not None:
            lines, dropped = split_lengths(text, start, lengths)
            if max([start, *lines.stops[-1:], *(stop for _, stop in dropped[-1:])]) != end:
                raise ValueError("lengths do not end where the block does")
            row.dropped += dropped
            self._flush_pending()
            self._columns.add_lines(lines)
            row.rows += len(lines.starts)
            return
        if len(text) != end - start:
            raise ValueError("the text is not as long as its interval")
        whole = text.rfind(b"\n") + 1
        if whole:
            self._text(text if whole == len(text) else text[:whole], start, row)
        if whole < len(text):
            self._single(row).add_line(text[whole:].decode(), start + whole, end, LINE_ENDS[NONE])
