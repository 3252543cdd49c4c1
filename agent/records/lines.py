"""Chunks of a file cut into runs of one record a line, whatever these records look like.

No Python runs for a line (`logdrive.kernel`), but for lines that are not plain: those with CRLF
ends, without an end, that are not UTF-8, or too long for a record.
"""

from typing import Final, Protocol

from agent.records.batch import Records, Run, RunBuilder
from agent.records.blocks import PIECE_BYTES, LinePart, line_places, pieces
from agent.records.chunk import TextChunk
from logdrive.kernel.loops import place_lines

RUN_EVENTS: Final = 512
"""Four runs make a window of 2,048 events, what Lumberjack's writers usually send."""


class RecordForm(Protocol):
    """What a line's record looks like. Made anew for each chunk."""

    def records(self, data: bytes, offsets: bytes, count: int) -> Records | None:
        """Return the *count* lines *data*, all ended by LF, as records; None where `record` must
        make each by itself.

        *offsets* are where the lines begin, in decimal, commas between them.
        """
        ...

    def record(self, piece: LinePart) -> bytes:
        """Return one line, or a part of one, as a record."""
        ...

    def singles(self) -> list[bytes]:
        """Return an empty list for what `record` makes."""
        ...


def cut_lines(chunk: TextChunk, form: RecordForm, previous: int, read_ms: int) -> list[Run]:
    """Return the runs for *chunk*, or, where they would be too many, for its beginning.

    See `Encoder.encode` for *previous* and *read_ms*.
    """
    runs = RunBuilder(chunk, previous, read_ms, most_records=RUN_EVENTS, new_list=form.singles)
    work = _Lines(chunk, form, runs)
    work.all()
    return runs.finish()


class _Lines:
    """One call's work. Places count from the data's beginning."""

    def __init__(self, chunk: TextChunk, form: RecordForm, runs: RunBuilder) -> None:
        self._text, self._begin, self._end, self._open_end = (
            chunk.data,
            chunk.begin,
            chunk.end,
            chunk.open_end,
        )
        self._zero = chunk.start - chunk.begin  # the position of place 0
        self._form = form
        self._runs = runs

    def all(self) -> None:
        text, at = self._text, self._begin
        whole = text.rfind(b"\n", at, self._end) + 1
        while at < whole and not self._runs.enough:
            end = text.rfind(b"\n", at, min(at + PIECE_BYTES, whole)) + 1
            if end:
                end = self._run(at, end)
            else:  # the next line is longer than a record may be
                end = text.index(b"\n", at + PIECE_BYTES) + 1
                self._pieces(at, end)
            at = end
        if at < self._end and not self._runs.enough:
            self._pieces(at, self._end)

    def _run(self, at: int, end: int) -> int:
        """Add a run of the lines in *text[at:end]*, or of as many as fit one; return up to where
        they go.
        """
        data = self._text[at:end]
        offsets, count, length = place_lines(data, self._zero + at, RUN_EVENTS)
        data, end = data[:length], at + length
        records = self._form.records(data, offsets, count)
        if records is None:
            for line_at, line_end in line_places(self._text, at, end):
                self._pieces(line_at, line_end)
        else:
            self._runs.add_run(records, self._zero + end, count)
        return end

    def _pieces(self, at: int, end: int) -> None:
        """Add one line as a record, or as several where it is too long for one."""
        for piece in pieces(self._text, at, end, self._zero, open_end=self._open_end):
            self._runs.add(self._form.record(piece), piece.end, 1)
