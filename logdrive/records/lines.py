"""Cuts chunks of a file into runs of one record a line, for any form of record.

No Python code runs for a single line (`logdrive.kernel`), except for lines that are not plain:
those that end with CR LF or lack an end, are not UTF-8, or are too long for a record.
"""

from typing import Final, Protocol

from logdrive.kernel.loops import place_lines
from logdrive.records.blocks import LINE_PART_BYTES, LinePart, line_spans, split_line
from logdrive.records.chunk import TextChunk
from logdrive.records.runs import Records, Run, RunBuilder

RUN_EVENTS: Final = 512
"""Events in a run. Four runs make 2,048 events, the usual window of other Lumberjack writers."""


class RecordForm(Protocol):
    """The form of a line's record: full records or pairs. `cut_lines` calls it."""

    def encode_lines(self, data: bytes, offsets: bytes, count: int) -> Records | None:
        """Return *count* lines, each ended by LF, as the records of one run.

        *offsets* are the positions of the lines' first bytes, in decimal and separated by commas.
        Returns None if some line is not plain or the records exceed a run: then each line is passed
        to `encode_part`.
        """
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
            end = text.rfind(b"\n", at, min(at + LINE_PART_BYTES, whole)) + 1
            if end:
                end = self._add_run(at, end)
            else:  # the next line is too long for one record
                end = text.index(b"\n", at + LINE_PART_BYTES) + 1
                self._add_line_parts(at, end)
            at = end

        # the last line lacks its newline
        if at < self._end and not self._runs.has_enough:
            self._add_line_parts(at, self._end)

    def _add_run(self, at: int, end: int) -> int:
        """Add the lines of *text[at:end]* as one run, `RUN_EVENTS` at most; return their end."""
        data = self._text[at:end]
        offsets, count, length = place_lines(data, self._zero + at, RUN_EVENTS)
        data, end = data[:length], at + length

        records = self._form.encode_lines(data, offsets, count)
        # some line is not plain, or all are too long together: each becomes a record by itself
        if records is None:
            for line_at, line_end in line_spans(self._text, at, end):
                self._add_line_parts(line_at, line_end)
        else:
            self._runs.add_run(records, self._zero + end, count)

        return end

    def _add_line_parts(self, at: int, end: int) -> None:
        """Add one line as a record, or as several if it is too long for one."""
        for part in split_line(self._text, at, end, self._zero, open_end=self._open_end):
            self._runs.add_record(self._form.encode_part(part), part.end, 1)
