"""Bytes of a file -> records, cut into runs that fit one batch (rules R1, R2, R3).

Plain text travels as blocks: each a stretch of up to 256 KiB of whole lines, decoded once and
escaped by one call, so that no Python runs for a line (about 0.15 µs a line of 188 bytes). Only
what a block can't carry goes by itself, as *lean* records: lines that are not UTF-8, lines without
their newline, and the pieces of lines too long for a record.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from agent.records.batch import Run, RunBuilder
from agent.records.chunk import TextChunk
from logdrive.model import records as record
from logdrive.model.limits import BLOCK_TEXT_BYTES, RECORD_BYTES
from logdrive.model.units import KIB

PIECE_BYTES: Final = 96 * KIB
"""Longest piece of a line in a record of its own: escaped six times as long, and once more in
Base64, it still fits.
"""

PARTIAL: Final = ("partial",)
"""`log.flags` of every piece of a line but its last."""

_REPLACEMENT: Final = "\ufffd"
_REPLACEMENT_BYTES: Final = _REPLACEMENT.encode()
_RETURN: Final = 0x0D


class Encoder(Protocol):
    """Turns text of one source into runs."""

    def encode(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, which is not empty, or for its beginning.

        The first run goes on from the number *previous*; *read_ms* is when the chunk was read. A
        last line without newline is an event of its own. Where the runs get too many, the last one
        ends before the chunk does: encode the rest later.
        """
        ...


@dataclass(frozen=True, slots=True)
class LinePart:
    """A line, or a part of one, as it goes into a record of its own (rule R2)."""

    start: int
    end: int
    message: str
    eol: str = "\n"
    original: str | None = None
    flags: tuple[str, ...] = ()

    def lean(self) -> bytes:
        """Return it as a lean record."""
        log = {"flags": list(self.flags)} if self.flags else None
        return record.lean_record(
            self.start, self.end, self.message, eol=self.eol, log=log, original=self.original
        )


class BlockEncoder:
    """Blocks where possible, lean records where not."""

    def encode(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, or, where they would be too many, for its beginning."""
        work = _Blocks(chunk, RunBuilder(chunk, previous, read_ms))
        work.all()
        return work.runs.finish()


class _Blocks:
    """One call's work: the chunk's data, and the runs made of it so far.

    Places count from the data's beginning.
    """

    def __init__(self, chunk: TextChunk, runs: RunBuilder) -> None:
        self.text, self.begin, self.end, self.open_end = (
            chunk.data,
            chunk.begin,
            chunk.end,
            chunk.open_end,
        )
        self.zero = chunk.start - chunk.begin  # the position of place 0
        self.runs = runs

    def all(self) -> None:
        text, at = self.text, self.begin
        whole = text.rfind(b"\n", at, self.end) + 1
        while at < whole and not self.runs.enough:
            end = min(at + BLOCK_TEXT_BYTES, whole)
            if end < whole:
                end = text.rfind(b"\n", at, end) + 1
            if end:
                self._block(at, end)
            else:  # the next line is longer than a block
                end = text.find(b"\n", at + BLOCK_TEXT_BYTES) + 1
                self._pieces(at, end)
            at = end
        if at < self.end and not self.runs.enough:
            self._pieces(at, self.end)

    def _block(self, at: int, end: int) -> None:
        """Add whole lines, at most a block's worth; only the first of them once there is enough."""
        data = self.text[at:end]
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self._line_by_line(at, end)
            return
        # a third of what count() takes for lines of this length
        lines = len(data) - len(data.replace(b"\n", b""))
        payload = record.block_record(self.zero + at, self.zero + end, lines, text)
        if len(payload) <= RECORD_BYTES:
            self.runs.add(payload, self.zero + end, lines)
        elif lines == 1:
            self._pieces(at, end)
        else:  # escaped too long: a block of NULs is six times its text (history 23)
            middle = (
                self.text.rfind(b"\n", at, (at + end) // 2) + 1 or self.text.find(b"\n", at) + 1
            )
            self._block(at, middle)
            if not self.runs.enough:
                self._block(middle, end)

    def _line_by_line(self, at: int, end: int) -> None:
        """Add lines of which some are not UTF-8: those as lean records, the stretches between them
        as blocks.

        About 2 µs for each that is not: the file may have nothing else. All are decoded at once,
        which makes of a line what it would by itself: no character goes on beyond a newline.
        """
        data, text_from, after = self.text[at:end], at, at
        for line, shown in zip(
            data.split(b"\n"), data.decode(errors="replace").split("\n"), strict=True
        ):
            line_at, after = after, after + len(line) + 1
            if _REPLACEMENT not in shown or _is_utf8(line):
                continue
            if text_from < line_at:
                self._block(text_from, line_at)
            if self.runs.enough:
                return
            if len(line) < PIECE_BYTES and line[-1] != _RETURN:
                self.runs.add(
                    record.exact_lean_record(self.zero + line_at, self.zero + after, shown, line),
                    self.zero + after,
                    1,
                )
            else:
                self._pieces(line_at, after)
            text_from = after
        if text_from < end and not self.runs.enough:
            self._block(text_from, end)

    def _pieces(self, at: int, end: int) -> None:
        """Add one line as lean records."""
        for piece in pieces(self.text, at, end, self.zero, open_end=self.open_end):
            self.runs.add(piece.lean(), piece.end, 1)


def pieces(text: bytes, at: int, end: int, zero: int, *, open_end: bool) -> Iterator[LinePart]:
    """Yield the line *text[at:end]* as one piece, or as several where it is longer than
    `PIECE_BYTES`; no byte is left out.

    *zero* is the position at which *text* begins; *open_end* counts where the line lacks its
    newline.
    """
    while end - at > PIECE_BYTES:
        cut = _character_start(text, at + PIECE_BYTES)
        yield _piece(text[at:cut], zero + at, "", PARTIAL)
        at = cut
    line = text[at:end]
    if line.endswith(b"\r\n"):
        yield _piece(line[:-2], zero + at, "\r\n")
    elif line.endswith(b"\n"):
        yield _piece(line[:-1], zero + at, "\n")
    else:
        yield _piece(line, zero + at, "", PARTIAL if open_end else ())


def _piece(data: bytes, start: int, eol: str, flags: tuple[str, ...] = ()) -> LinePart:
    end = start + len(data) + len(eol)
    try:
        return LinePart(start, end, data.decode(), eol, None, flags)
    except UnicodeDecodeError:
        return LinePart(
            start, end, data.decode(errors="replace"), eol, base64.b64encode(data).decode(), flags
        )


def _character_start(text: bytes, at: int) -> int:
    """Return *at*, or the place up to three bytes before it where a character begins that *at*
    would cut.
    """
    for back in range(4):
        if text[at - back] & 0xC0 != 0x80:
            return at - back
    return at  # not UTF-8 anyway


def line_places(text: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where each line of *text[at:end]* begins, and where it ends, its newline included."""
    while at < end:
        after = text.find(b"\n", at, end) + 1 or end
        yield at, after
        at = after


def _is_utf8(line: bytes) -> bool:
    """Tell whether *line* is UTF-8, though there is a replacement character in what it decodes
    to.
    """
    if _REPLACEMENT_BYTES not in line:
        return False
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
