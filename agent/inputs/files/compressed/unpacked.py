"""The content of a compressed file: read in order, a few bytes back at most, and surveyed whole."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from agent.inputs.files.compressed.codecs import DamagedError, open_unpacker
from agent.inputs.files.prefix import PREFIX_BYTES, extend_prefix
from agent.sources.identity import FirstLine
from logdrive.host.disk import File, FileStat
from logdrive.model.limits import FIRST_LINE_BYTES, MAX_POSITION, TAIL_BYTES
from logdrive.model.numbers import check_in, check_of, position_of
from logdrive.model.units import GIB, KIB, MIB

STEP_BYTES: Final = MIB
"""Bytes that are unpacked at once: 2 ms of gzip or zstd, 30 ms of bzip2."""
_PIECE_BYTES: Final = 256 * KIB
_FEW_BYTES: Final = GIB
_MOST_RATIO: Final = 1000
"""No text shrinks to less than a thousandth: a file of more than `_FEW_BYTES` that does is no log,
and is not read on.
"""


class SeekingError(BlockingIOError):
    """The bytes asked for lie far ahead: they are there once `UnpackedFile.advance` got to them."""


class UnpackedFile:
    """An open compressed file, as if it had its content: `pread` has offsets in that.

    Reads go forward. Up to the last `STEP_BYTES` and the first KiB are kept; bytes before these are
    unpacked again from the beginning. A read far ahead raises `SeekingError`.
    """

    def __init__(self, file: File, suffix: str) -> None:
        self._file = file
        self._suffix = suffix
        self._packed = file.stat().size  # compressed bytes
        self._head = b""  # the first bytes, as many as a first line has
        self._restart()

    def _restart(self) -> None:
        self._unpacker = open_unpacker(self._file, self._suffix)
        self._kept = bytearray()  # the bytes before `end`
        self.end = 0  # how many bytes were unpacked
        self.complete = False  # whether there are no more
        self.target = 0  # what the last read that failed asked for

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*; fewer only at the end.

        Raises OSError, of it `SeekingError`; and `DamagedError`, `IncompleteError`.
        """
        if offset + size <= len(self._head):
            return self._head[offset : offset + size]
        if offset < self.end - len(self._kept):
            self._restart()
        if offset > self.end + STEP_BYTES:
            self.target = offset
            raise SeekingError(f"the file is unpacked up to {self.end} of {offset} bytes")
        self._unpack_to(offset + size, keep=max(0, offset - TAIL_BYTES))
        begin = offset - (self.end - len(self._kept))
        return bytes(self._kept[begin : begin + size])

    def advance(self) -> bool:
        """Unpack a step towards the target; return whether it is near enough for `pread`.

        Raises what `pread` does.
        """
        until = min(self.target, self.end + STEP_BYTES)
        self._unpack_to(until, keep=max(0, until - TAIL_BYTES))
        return self.complete or self.target <= self.end + STEP_BYTES

    def _unpack_to(self, end: int, *, keep: int) -> None:
        """Unpack up to *end*, and keep what follows the offset *keep*."""
        while self.end < end and not self.complete:
            piece = self._unpacker.read(min(_PIECE_BYTES, max(TAIL_BYTES, end - self.end)))
            self.complete = not piece
            self._kept += piece
            self.end += len(piece)
            if len(self._head) < FIRST_LINE_BYTES and self.end - len(self._kept) == 0:
                self._head = bytes(self._kept[:FIRST_LINE_BYTES])
            self._check_size()
            begin = self.end - len(self._kept)
            if keep - begin > _PIECE_BYTES:
                del self._kept[: keep - begin]

    def _check_size(self) -> None:
        if self.end >= MAX_POSITION:
            raise DamagedError("it has more bytes than a file can have")
        if self.end > _FEW_BYTES and self.end > _MOST_RATIO * self._packed:
            raise DamagedError(f"it grows to more than {_MOST_RATIO} times its size")

    def stat(self) -> FileStat:
        """Return the metadata of the compressed file."""
        return self._file.stat()

    def close(self) -> None:
        """Close the handle."""
        self._file.close()


@dataclass(slots=True)
class Survey:
    """What is compared of a compressed file's content, once all of it was read."""

    head: bytearray = field(default_factory=bytearray)
    """The first bytes, until the prefix is made of them."""
    prefix: bytes = b""
    """CRCs of its first bytes."""
    first_line: FirstLine | None = None
    size: int = 0
    """How many bytes were unpacked so far."""
    text_size: int = 0
    """Those of them that are before the NULs at the end."""
    tail: bytes = b""
    """The last 256 of them."""
    checks: dict[int, int] = field(default_factory=dict)
    """Check bits by position."""
    complete: bool = False
    """Whether that is all, up to the last trailer."""
    unknown: bool = False
    """Whether a position was asked for that was not compared: another survey has to."""

    def agrees_at(self, number: int) -> bool:
        """Return whether the bytes before a position have the check in *number*, or it has none."""
        position, check = position_of(number), check_in(number)
        if check and position == self.size:
            return check_of(self.tail) == check
        if check and position < self.size and position not in self.checks:
            self.unknown = True
        return not check or self.checks.get(position) == check


class Surveyor:
    """Reads one compressed file whole, a step at a time."""

    def __init__(
        self,
        file: File,
        suffix: str,
        line_end: bytes,
        positions_for: Callable[[Survey, FirstLine], Iterable[int]],
    ) -> None:
        """*positions_for* says which positions are to be compared, once the prefix is known."""
        self.survey = Survey()
        self._unpacker = open_unpacker(file, suffix)
        self._packed = file.stat().size
        self._line_end = line_end
        self._positions_for = positions_for
        self._positions: list[int] | None = None  # those to come, lowest first; None: not asked

    def advance(self) -> bool:
        """Read a step; return whether all is read.

        Raises OSError, `DamagedError`, `IncompleteError`.
        """
        survey, until = self.survey, self.survey.size + STEP_BYTES
        while survey.size < until and not survey.complete:
            self._add(self._unpacker.read(_PIECE_BYTES))
        return survey.complete

    def stop(self) -> Survey:
        """Return what is known after an error."""
        if self._positions is None:
            self._begin(self.survey)
        return self.survey

    def _add(self, piece: bytes) -> None:
        survey = self.survey
        if self._positions is None:
            survey.head += piece
            survey.size += len(piece)
            if len(survey.head) >= PREFIX_BYTES or not piece:
                self._begin(survey)
        else:
            self._compare(piece)
            survey.size += len(piece)
        survey.complete = not piece
        if survey.size > _FEW_BYTES and survey.size > _MOST_RATIO * self._packed:
            raise DamagedError(f"it grows to more than {_MOST_RATIO} times its size")

    def _begin(self, survey: Survey) -> None:
        """Make prefix and first line of what is there, and ask which positions to compare."""
        head = bytes(survey.head)
        survey.prefix = extend_prefix(b"", len(head), lambda size, at: head[at : at + size])
        survey.first_line = FirstLine.find_in(head, ended=True, line_end=self._line_end)
        first_line = survey.first_line
        wanted = self._positions_for(survey, first_line) if first_line is not None else ()
        self._positions = sorted(set(wanted))
        survey.head.clear()
        survey.size = 0
        self._compare(head)
        survey.size = len(head)

    def _compare(self, piece: bytes) -> None:
        survey = self.survey
        assert self._positions is not None
        text = survey.tail + piece
        begin = survey.size - len(survey.tail)
        if written := len(piece.rstrip(b"\0")):
            survey.text_size = survey.size + written
        while self._positions and self._positions[0] <= survey.size + len(piece):
            position = self._positions.pop(0)
            at = position - begin
            survey.checks[position] = check_of(text[max(0, at - TAIL_BYTES) : at])
        survey.tail = text[-TAIL_BYTES:]
