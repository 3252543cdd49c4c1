"""Bytes of a segment in, rows of the two bronze tables out: no Spark, no I/O.

`Decoder.feed` takes whole batches and `Decoder.take` gives what has come together as Arrow tables, so that a writer makes row
groups of the size it likes. Text in blocks costs no Python per line, the other forms cost one JSON parse per record.
"""

from typing import Any

import pyarrow as pa

from logdrive.pipeline.blocks import LINE_ENDS, NONE, split_lengths, split_lines
from logdrive.pipeline.event_columns import EventColumns, events_table
from logdrive.pipeline.headers import BatchRow, batch_row
from logdrive.pipeline.hop import records, walk
from logdrive.pipeline.records import BLOCK, Single, foreign_event, own_event, parsed, quarantined
from logdrive.pipeline.schema import FOREIGN, HEADLESS, HEADLESS_ROW, MALFORMED
from logdrive.sinks.segment_reader import Hop


class Decoder:
    """Decodes the batches of one stream, in the order in which they are fed."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._columns = EventColumns()
        self._singles: list[Single] = []
        self._batches: list[BatchRow] = []
        self.text_bytes = 0

    def feed(self, segment: str, offset: int, data: bytes) -> int:
        """Decode the whole batches in *data*, which begins at *offset* with one; return where the next one begins."""
        following = offset
        for hop in walk(segment, offset, data):
            row = batch_row(self._stream, segment, hop)
            self._batches.append(row)
            before = self._rows
            self._decode(hop, row, data, offset)
            self._settle()
            row.rows = self._rows - before
            following = hop.next
        self.text_bytes += following - offset
        return following

    def take(self) -> tuple[pa.Table, list[BatchRow]]:
        """Return the event rows and headers since the last call."""
        table = events_table(self._columns, self._batches)
        batches, self._batches, self._columns, self.text_bytes = self._batches, [], EventColumns(), 0
        return table, batches

    @property
    def _rows(self) -> int:
        return self._columns.count + len(self._singles)

    def _settle(self) -> None:
        if self._singles:
            self._columns.add_singles(self._singles)
            self._singles = []

    def _decode(self, hop: Hop, row: BatchRow, data: bytes, base: int) -> None:
        """Decode one batch of *data*, which begins at *base*."""
        start, end = hop.body - base, hop.next - base
        if row.kind == HEADLESS:
            self._singles.append(quarantined(hop.payload, HEADLESS_ROW))
            return
        if row.kind not in ("data", FOREIGN):
            return
        try:
            payloads = list(records(data, start, end))
        except ValueError:
            self._singles.append(quarantined(data[start:end], MALFORMED))
            return
        if row.kind == FOREIGN:
            for payload in payloads:
                value = parsed(payload)
                self._singles.append(foreign_event(payload, value) if isinstance(value, dict) else value)
        else:
            for payload in payloads:
                self._own(payload, row)

    def _own(self, payload: bytes, row: BatchRow) -> None:
        """Decode one record of our own agent: a block, or a single event."""
        value = parsed(payload)
        if not isinstance(value, dict):
            self._singles.append(value)
            return
        log = value.get("log")
        if not (isinstance(log, dict) and "lines" in log):
            self._singles.append(own_event(payload, value))
            return
        try:
            self._block(value, log, row)
        except ValueError:
            self._singles.append(quarantined(payload, MALFORMED))

    def _block(self, value: dict[str, Any], log: dict[str, Any], row: BatchRow) -> None:
        """Decode a block (rule R1). Raises ValueError where its figures contradict its text."""
        message, start, end = value.get("message"), log.get("offset"), log.get("end")
        if not (isinstance(message, str) and isinstance(start, int) and isinstance(end, int) and 0 <= start < end):
            raise ValueError("a block without text or positions")
        text = message.encode()
        if (lengths := value.get("lengths")) is not None:
            lines, dropped = split_lengths(text, start, lengths)
            if max([start, *lines.stops[-1:], *(stop for _, stop in dropped[-1:])]) != end:
                raise ValueError("lengths do not end where the block does")
            row.dropped += dropped
            self._settle()
            self._columns.add(lines)
            return
        if len(text) != end - start:
            raise ValueError("the text is not as long as its interval")
        whole = text.rfind(b"\n") + 1
        if whole:
            self._settle()
            self._columns.add(split_lines(text if whole == len(text) else text[:whole], start))
        if whole < len(text):
            self._singles.append(Single(text[whole:].decode(), BLOCK, start + whole, end, LINE_ENDS[NONE]))
