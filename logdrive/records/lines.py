"""Cuts chunks of a file into runs of one record a line, for any form of record.

No Python code runs for a single line (`logdrive.kernel`), except for lines that are not plain:
those that end with CR LF or lack an end, are not UTF-8, or are too long for a record.
"""

from typing import Final, NamedTuple, Protocol

from logdrive.kernel.loops import scan_lines
from logdrive.model.limits import RUN_BYTES, RUN_RECORDS
from logdrive.records.blocks import LINE_PART_BYTES, LinePart, line_spans, split_line
from logdrive.records.chunk import TextChunk
from logdrive.records.runs import Records, Run, RunBuilder

RUN_EVENTS: Final = RUN_RECORDS
"""Events in a run, one a record. Two runs make 1,998 events, about the usual window of other
Lumberjack writers, 2,048; and readers of ours store as many together.
"""


class PlainLines(NamedTuple):
    """Lines that become the records of one run: *data[at:end]*, which is not copied.

    Each ends with LF alone, is UTF-8, and takes at most `LINE_PART_BYTES`.
    """

    data: bytes
    """The bytes as they were read, the lines among them."""

    at: int
    """Where the lines begin in *data*."""

    end: int
    """Where they end."""

    start: int
    """The position of the first one in the file."""

    events: int
    """How many they are."""

    written: int
    """Bytes of their positions in decimal and of their messages, escaped for JSON."""


class RecordForm(Protocol):
    """The form of a line's record: full records or pairs. `cut_lines` calls it."""

    def encode_lines(self, lines: PlainLines) -> Records:
        """Return *lines* as the records of one run, which may be too long for one."""
        ...

    def encode_part(self, part: LinePart) -> bytes:
        """Return one line, or a part of one, as a record."""
        ...

    def new_part_list(self) -> list[bytes]:
        """Return an empty list for the records of one run that `encode_part` makes."""
        ...


def cut_lines(chunk: TextChunk, form: RecordForm, previous: int, read_ms: int) -> list[Run]:
    """Return the runs for *chunk*, or for its beginning if they would be too many.

    *previous* and *read_ms* are those of `Encoder.encode_chunk`.
    """
    runs = RunBuilder(
        chunk, previous, read_ms, most_records=RUN_EVENTS, new_list=form.new_part_list
    )
    work = _ChunkLines(chunk, form, runs)
    work.encode_all()
    return runs.finish_runs()


class _ChunkLines:
    """Encodes one chunk. Offsets (`at`, `end`) count from the start of the chunk's data."""

    def __init__(self, chunk: TextChunk, form: RecordForm, runs: RunBuilder) -> None:
        self._text = chunk.data
        self._begin = chunk.begin  # offset of the chunk's text
        self._end = chunk.end  # offset after it
        self._open_end = chunk.open_end  # the last line goes on in the next chunk
        self._zero = chunk.start - chunk.begin  # the position of offset 0
        self._form = form
        self._runs = runs  # what is encoded so far

    def encode_all(self) -> None:
        text, at = self._text, self._begin
        whole = text.rfind(b"\n", at, self._end) + 1  # the end of the last whole line

        while at < whole and not self._runs.has_enough:
            at = self._add_run(at, whole)

        # the last line lacks its newline
        if at < self._end and not self._runs.has_enough:
            self._add_line_parts(at, self._end)

    def _add_run(self, at: int, whole: int) -> int:
        """Add lines of *text[at:whole]* as one run, `RUN_EVENTS` at most; return their end."""
        text, start, most = self._text, self._zero + at, RUN_EVENTS
        while most:
            count, length, written = scan_lines(text, at, whole, start, most, LINE_PART_BYTES)
            if not count or written < 0:
                break
            lines = PlainLines(text, at, at + length, start, count, written)
            records = self._form.encode_lines(lines)
            if records.size <= RUN_BYTES:
                self._runs.add_run(records, self._zero + lines.end, count)
                return lines.end
            most = count // 2  # too long together

        # the next line is too long for one record, or some are not plain: each by itself
        end = at + length if length else text.index(b"\n", at + LINE_PART_BYTES) + 1
        for line_at, line_end in line_spans(text, at, end):
            self._add_line_parts(line_at, line_end)
        return end

    def _add_line_parts(self, at: int, end: int) -> None:
        """Add one line as a record, or as several if it is too long for one."""
        for part in split_line(self._text, at, end, self._zero, open_end=self._open_end):
            self._runs.add_record(self._form.encode_part(part), part.end, 1)
