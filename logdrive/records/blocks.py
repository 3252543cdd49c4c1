"""Encodes bytes of a file as blocks and lean records, in runs that fit a batch (rules R1, R2, R3).

Plain text becomes block records. Each holds up to 256 KiB of whole lines, decoded once and escaped
by one call, so that no Python code runs for a single line (about 0.15 µs a line of 188 bytes). Only
what a block can't hold becomes *lean* records, one for each line or part of a line: lines that are
not UTF-8, lines without their newline, and lines too long for a record.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from logdrive.model import records as record
from logdrive.model.limits import BLOCK_TEXT_BYTES, RECORD_BYTES
from logdrive.model.units import KIB
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from logdrive.records.runs import Run, RunBuilder

LINE_PART_BYTES: Final = 96 * KIB
"""Limit on the bytes of a line, or part of one, in a record of its own.

Escaped by JSON they are up to six times as long; with a Base64 copy beside them they still fit.
"""

_PARTIAL: Final = (record.PARTIAL,)
"""`log.flags` of each part of a line but its last."""

_REPLACEMENT: Final = "\ufffd"
_REPLACEMENT_BYTES: Final = _REPLACEMENT.encode()
_RETURN: Final = 0x0D


class Encoder(Protocol):
    """Turns the text of one source into runs of records. Each source has its own encoder."""

    @property
    def chunk_bytes(self) -> int:
        """Bytes that are read at once."""
        ...

    @property
    def longest_line(self) -> int:
        """Bytes that are read to find the end of a line; beyond these it comes in parts."""
        ...

    def encode_chunk(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, which is not empty.

        The first run follows the number *previous*; *read_ms* is when the chunk was read, in
        milliseconds since the epoch. A last line without newline is an event of its own. If the
        runs are too many, the last one ends before the chunk does: encode the rest later.
        """
        ...


@dataclass(frozen=True, slots=True)
class LinePart:
    """A line, or a part of one, for a record of its own (rule R2)."""

    start: int
    """The position of its first byte."""

    end: int
    """The position after its last byte, line end included."""

    message: str
    """Its text without the line end; bytes that are not UTF-8 are replaced."""

    eol: str = "\n"
    """Its line end: LF, CR LF or none."""

    original: str | None = None
    """Its bytes without the line end, in Base64, where they are not UTF-8."""

    flags: tuple[str, ...] = ()
    """`partial`, or nothing for a whole line and for the last part of one."""

    def encode_lean(self) -> bytes:
        """Return it as a lean record."""
        log = {"flags": list(self.flags)} if self.flags else None
        return record.lean_record(
            self.start, self.end, self.message, eol=self.eol, log=log, original=self.original
        )


class BlockEncoder:
    """Encodes blocks where possible, lean records elsewhere."""

    chunk_bytes = longest_line = CHUNK_BYTES

    def encode_chunk(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, or for its beginning if they would be too many."""
        work = _ChunkBlocks(chunk, RunBuilder(chunk, previous, read_ms))
        work.encode_all()
        return work.runs.finish_runs()


class _ChunkBlocks:
    """Encodes one chunk. Offsets (`at`, `end`) count from the start of the chunk's data."""

    def __init__(self, chunk: TextChunk, runs: RunBuilder) -> None:
        self.text = chunk.data
        self.begin = chunk.begin  # offset of the chunk's text
        self.end = chunk.end  # offset after it
        self.open_end = chunk.open_end  # the last line goes on in the next chunk
        self.zero = chunk.start - chunk.begin  # the position of offset 0
        self.runs = runs  # what is encoded so far

    def encode_all(self) -> None:
        text, at = self.text, self.begin
        whole = text.rfind(b"\n", at, self.end) + 1  # the end of the last whole line

        while at < whole and not self.runs.has_enough:
            end = min(at + BLOCK_TEXT_BYTES, whole)
            if end < whole:
                end = text.rfind(b"\n", at, end) + 1
            if end:
                self._add_block(at, end)
            else:  # the next line is longer than a block
                end = text.find(b"\n", at + BLOCK_TEXT_BYTES) + 1
                self._add_line_parts(at, end)
            at = end

        # the last line lacks its newline
        if at < self.end and not self.runs.has_enough:
            self._add_line_parts(at, self.end)

    def _add_block(self, at: int, end: int) -> None:
        """Add whole lines, of at most a block's size.

        Where they must be divided, only the first half is added once there are enough runs.
        """
        data = self.text[at:end]
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self._add_lines(at, end)
            return

        # takes a third of the time of count() for lines of this length
        lines = len(data) - len(data.replace(b"\n", b""))
        payload = record.block_record(self.zero + at, self.zero + end, lines, text)

        if len(payload) <= RECORD_BYTES:
            self.runs.add_record(payload, self.zero + end, lines)
        elif lines == 1:
            self._add_line_parts(at, end)
        else:  # too long for a record once escaped: JSON makes NUL bytes six times as long
            middle = (
                self.text.rfind(b"\n", at, (at + end) // 2) + 1 or self.text.find(b"\n", at) + 1
            )
            self._add_block(at, middle)
            if not self.runs.has_enough:
                self._add_block(middle, end)

    def _add_lines(self, at: int, end: int) -> None:
        """Add lines of which some are not UTF-8: those as lean records, those between as blocks.

        Takes about 2 µs for each line that is not UTF-8; a file may have no others. All lines are
        decoded in one call, which gives the same text as one call for each: no character extends
        past a newline.
        """
        data, block_at, after = self.text[at:end], at, at
        for line, shown in zip(
            data.split(b"\n"), data.decode(errors="replace").split("\n"), strict=True
        ):
            line_at, after = after, after + len(line) + 1
            # UTF-8; U+FFFD may be in the line itself
            if _REPLACEMENT not in shown or _is_utf8(line):
                continue

            # a block of the UTF-8 lines before this one
            if block_at < line_at:
                self._add_block(block_at, line_at)
            if self.runs.has_enough:
                return

            # one record, without another decoding; a line end CR LF, or parts, take longer
            if len(line) < LINE_PART_BYTES and line[-1] != _RETURN:
                self.runs.add_record(
                    record.exact_lean_record(self.zero + line_at, self.zero + after, shown, line),
                    self.zero + after,
                    1,
                )
            else:
                self._add_line_parts(line_at, after)
            block_at = after

        if block_at < end and not self.runs.has_enough:
            self._add_block(block_at, end)

    def _add_line_parts(self, at: int, end: int) -> None:
        """Add one line as lean records."""
        for part in split_line(self.text, at, end, self.zero, open_end=self.open_end):
            self.runs.add_record(part.encode_lean(), part.end, 1)


def split_line(text: bytes, at: int, end: int, zero: int, *, open_end: bool) -> Iterator[LinePart]:
    """Yield the line *text[at:end]* in parts of at most `LINE_PART_BYTES`; no byte is left out.

    *zero* is the position of *text[0]*. With *open_end*, a line without newline goes on in the next
    chunk.
    """
    while end - at > LINE_PART_BYTES:
        cut = character_start(text, at + LINE_PART_BYTES)
        yield _line_part(text[at:cut], zero + at, "", _PARTIAL)
        at = cut

    # the last part has the line's end
    line = text[at:end]
    if line.endswith(b"\r\n"):
        yield _line_part(line[:-2], zero + at, "\r\n")
    elif line.endswith(b"\n"):
        yield _line_part(line[:-1], zero + at, "\n")
    else:
        yield _line_part(line, zero + at, "", _PARTIAL if open_end else ())


def _line_part(data: bytes, start: int, eol: str, flags: tuple[str, ...] = ()) -> LinePart:
    end = start + len(data) + len(eol)
    try:
        return LinePart(start, end, data.decode(), eol, None, flags)
    except UnicodeDecodeError:
        return LinePart(
            start, end, data.decode(errors="replace"), eol, base64.b64encode(data).decode(), flags
        )


def character_start(text: bytes, at: int) -> int:
    """Return the start of the UTF-8 character that includes *text[at]*: up to 3 bytes before."""
    for back in range(4):
        if text[at - back] & 0xC0 != 0x80:
            return at - back
    return at  # not UTF-8: cut anywhere


def line_spans(text: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line of *text[at:end]*, newline included."""
    while at < end:
        after = text.find(b"\n", at, end) + 1 or end
        yield at, after
        at = after


def _is_utf8(line: bytes) -> bool:
    """Return whether *line*, which decodes to text with U+FFFD, has that character itself."""
    if _REPLACEMENT_BYTES not in line:
        return False
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
