"""Reads the bytes of one generation of a file, and notices when they are another's (rules G1, G4).

Each read compares what was read before: the first line, and the up to 256 bytes before the
position, which come in the same `pread` as the new ones. If they differ, or the file is shorter
than the position, it raises `SourceTruncatedError`. Of those bytes only a CRC-32 is kept: there are
ten thousand files.
"""

from typing import ClassVar, Final
from zlib import crc32

from agent.config.files import InputTable
from agent.events.cutter import LINES, EventCutter
from agent.events.cutting.make import HEAD_BYTES, make_cutter, needs_head
from agent.inputs.files.content import FileContent
from agent.inputs.files.prefix import extend_prefix, is_prefix_due
from agent.inputs.files.unwritten import UnwrittenTail, nuls_are_text
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from agent.sources.readable import DueGap, InputKind, SourceTruncatedError
from logdrive.host.disk import Disk, FileStat
from logdrive.model.limits import FIRST_LINE_BYTES, TAIL_BYTES
from logdrive.model.numbers import check_in, position_of
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from logdrive.records.runs import NOT_WANTED, GapOrEndMark

_UNWANTED: Final = GapOrEndMark(NOT_WANTED)
_CHARACTER_BYTES: Final = 8
"""Limit on the bytes of a character, by which a part of a line is shorter than what was read."""


class Generation(FileContent):
    """One generation of a file, the agent's `Readable` for files."""

    __slots__ = (
        "_cutter",
        "_in_line",
        "_more",
        "_rested",
        "_searched",
        "_tail",
        "final",
        "grown_at",
        "impatient",
        "modified_ns",
        "prefix",
        "retired",
        "settings",
        "start",
        "unnamed_since",
        "whole",
    )

    is_unique: ClassVar = False
    """Whether what a store has under its origin id is surely its own."""

    input_kind: ClassVar = InputKind.FILES
    """The input that restores its source after a restart."""

    def __init__(
        self,
        place: FileLocation,
        settings: InputTable,
        *,
        start: int = 0,
        first_line: FirstLine | None = None,
        impatient: bool = False,
    ) -> None:
        """Start at position 0, closed; *start* is where bytes are wanted from (rule P2).

        With *impatient* a last line without newline is read like any other: for `agent ship`, whose
        files are complete.
        """
        super().__init__(place, first_line)
        self.settings = settings
        self.start = start
        self.grown_at = 0.0  # when growth was last seen (monotonic, s)
        self.modified_ns = 0  # last change by the file system's clock, as of the last look
        self.unnamed_since: float | None = None  # since when it is seen to have no name (s)
        self.retired = False  # True: nothing will be read from it again
        self.final = False  # True: a last line without newline is read, until the file grows (P3)
        self.impatient = impatient
        self.prefix = b""  # CRCs of its first bytes (rule G5)
        # True: NULs at the end of the file are part of it, too (P5)
        self.whole = impatient or nuls_are_text(settings)
        # says where events end; None until the bytes are read that it depends on
        self._cutter: EventCutter | None = None if needs_head(settings) else make_cutter(settings)
        # whether the position is in a line that was too long to be read at once; None: not known
        self._in_line: bool | None = None
        self._rested = -1  # the size at which a last event of whole lines was released

        # whether there may be whole lines between position and seen
        self._more = True
        # where the search for the end of a long line goes on; below the position: at the position
        self._searched = 0
        # the NULs at the end of the file, beyond `seen`; None if there are none
        self._tail: UnwrittenTail | None = None

    def apply_settings(self, settings: InputTable) -> None:
        """Use the keys of another table from the position on at which is read next."""
        self.settings = settings
        self.whole |= nuls_are_text(settings)
        # made of the file's first bytes once it is needed, where the table asks for that
        self._cutter = None if needs_head(settings) else make_cutter(settings)
        self._searched, self._more = 0, True

    def retire(self) -> None:
        """Note that nothing will be read from it again; the tailer closes it at the next look."""
        self.retired = True

    def make_successor(self) -> "Generation":
        """Return the next generation of the same file, which takes over the handle."""
        generation = Generation(self.place, self.settings, impatient=self.impatient)
        generation.file, self.file, self.retired = self.file, None, True
        return generation

    @property
    def unread(self) -> int:
        """Bytes seen and not read."""
        return max(0, self.seen - self.position)

    @property
    def has_lines(self) -> bool:
        """Whether `read_lines` may return lines."""
        return self.seen > self.position and (self._more or self.final or self.impatient)

    def on_stat(self, stat: FileStat, now: float) -> None:
        """Note the file's status at *now* (monotonic, s).

        Raises `SourceTruncatedError` if the file is shorter than before, or its old bytes are
        others. They are compared first, so that `seen` does not grow by bytes of the next
        generation.
        """
        if stat.size < self.seen:
            raise SourceTruncatedError

        # the second case is a file rewritten to the same length
        changed = stat.size > self.seen or stat.modified_ns != self.modified_ns
        size = stat.size if self._tail is None else min(stat.size, self.seen)
        if changed and self.file is not None:
            if self.first_line is not None:
                self.verify_content()
            self._verify_end()
            size = self._find_end(stat)

        self.modified_ns = stat.modified_ns
        if stat.links:
            self.unnamed_since = None
        elif self.unnamed_since is None:
            self.unnamed_since = now
        self._grow_to(size, now)

    def _grow_to(self, size: int, now: float) -> None:
        if size > self.seen:
            self.seen, self.grown_at, self._more, self.final = size, now, True, False

    def is_at_rest(self, disk: Disk) -> bool:
        """Return whether a file that is read is as it was at the last close look.

        That takes one system call. False means that a close look is needed.
        """
        seen = self.seen
        if self.position != seen or self.unnamed_since is not None or self._tail is not None:
            return False
        try:
            if self.file is not None:
                return self.file.is_unchanged(seen, self.modified_ns)
            place = self.place
            return disk.is_unchanged(place.name, place.key, seen, self.modified_ns)
        except OSError:
            return False  # the close look raises it again

    def set_first_line(self, first_line: FirstLine) -> None:
        """Set the first line as soon as it is complete: each read compares it from now on."""
        self.first_line = first_line
        if self._cutter is None and first_line.text:
            self._cutter = make_cutter(self.settings, first_line.text[:HEAD_BYTES])

    def restore_seen(self, seen: int, now: float) -> None:
        """Set the largest size seen, from the checkpoint; the file counts as grown now."""
        self.seen = max(self.seen, seen)
        self.grown_at = now

    def release_last_line(self) -> None:
        """Let `read_lines` return a last line without newline, until the file grows (rule P3)."""
        self.final = True

    def release_all(self) -> bool:
        """Let `read_lines` return all that is left, also NULs at the end of the file (rule P5).

        Returns whether there were such, so that more is seen. A file in which nothing was written
        has none.
        """
        self.final = True
        if self._tail is None or not self.seen:
            return False
        self.whole = True
        self.seen, self._tail = max(self.seen, self._tail.size), None
        return True

    def may_have_grown(self, stat: FileStat) -> bool:
        """Return whether a closed file, whose status is *stat* now, may have bytes not seen yet."""
        size = self.seen if self._tail is None else self._tail.size
        # one of the same size may have been rewritten; what is shorter needs no handle to be known
        rewritten = stat.size == size and stat.modified_ns != self.modified_ns
        if self._tail is None:
            return stat.size > size or (rewritten and size > 0)
        return stat.size != size or rewritten

    def is_read_up_to(self, stat: FileStat) -> bool:
        """Return whether all of the file, whose status is *stat* now, is read that is written."""
        # a change may be what was written in place of NULs, or of all that was read
        size = stat.size if self._tail is None else self.seen
        return self.position == size and not self.may_have_grown(stat)

    def release_last_event(self) -> None:
        """Let `read_lines` return a last event of whole lines, until the file grows (rule P3)."""
        if self._rested != self.seen:
            self._rested, self._more = self.seen, True

    def read_head(self, size: int = FIRST_LINE_BYTES) -> bytes:
        """Return the file's first bytes, at most *size*; by default as many as a first line has.

        b"" if it is closed.
        """
        if self.file is None:
            return b""
        head = self.file.pread(size, 0)
        return self._without_tail(head, 0) if self._tail is None else head[: self.seen]

    def set_start(self, position: int) -> None:
        """Set the position from which bytes are wanted (rule P2)."""
        self.start = position

    def gap_at(self, position: int) -> DueGap | None:
        """Return the gap before the start, of bytes that are not wanted (rule P2)."""
        return DueGap(self.start, _UNWANTED) if position == 0 < self.start else None

    def on_whole_file_read(self, data: bytes) -> None:
        """Note that *data*, all the bytes of the file, are read."""
        self.position = self.seen = len(data)
        self._crc = crc32(data[-TAIL_BYTES:])

    def end_at(self, position: int) -> None:
        """Take *position* for the end: what follows belongs to the next generation (rule A4)."""
        self.position = self.seen = position

    def resume_from(self, number: int) -> None:
        """Move to the position of *number*; the next read compares its check."""
        self._keep_end(position_of(number))
        self.position = position_of(number)
        self._check = check_in(number)
        self._crc = None if self.position else 0
        self._more = True
        self._in_line = None
        self._searched = 0
        self.seen = max(self.seen, self.position)

    def read_lines(
        self, now: float, *, limit: int = CHUNK_BYTES, longest: int = 0
    ) -> TextChunk | None:
        """Return the next lines, None without any; *limit* bytes are read at once.

        Where they have no line end, up to *longest* are read; a longer line comes in parts. Raises
        OSError, or `SourceTruncatedError` before any byte of another generation is returned.
        """
        self._verify_first_line()
        # the next life may have that, too
        if self.first_line is not None and self.position <= self.first_line.span:
            self._verify_end()
        # other cutters than that of plain lines look at all of a long line again
        long_line = self._searched - self.position >= limit and self._cutter is LINES
        if long_line and self._line_goes_on(longest, now):
            return None
        chunk = self._read_chunk(limit, now)
        # its only line goes on: a writer may be about to end it
        if chunk.open_end and longest > limit:
            chunk = self._read_chunk(longest, now)
        if chunk.end == chunk.begin:
            self._searched = self.position + len(chunk.data) - chunk.begin
            return None

        self.position += chunk.end - chunk.begin
        self._in_line = chunk.open_end
        self._crc = crc32(chunk.tail_at(self.position))
        if self._end is not None and self._end[0] == self.position:
            self._end = None  # the same bytes
        self.keep_prefix()
        return chunk

    def keep_prefix(self) -> None:
        """Add the CRCs of what was read to the prefix, as far as it has bounds there (rule G5)."""
        if is_prefix_due(self.prefix, self.position):
            assert self.file is not None
            self.prefix = extend_prefix(self.prefix, self.position, self.file.pread)

    def _line_goes_on(self, longest: int, now: float) -> bool:
        """Return whether the line at the position is still without end, and may have one.

        Reads only what was not searched before: a line of 4 MiB may grow by a byte at a time.
        """
        assert self.file is not None
        room = self.position + longest - self._searched
        if self.final or self.impatient or room <= 0:
            return False
        data = self._without_tail(self.file.pread(room, self._searched), self._searched)
        if len(data) == room or b"\n" in data:
            return False
        self._searched += len(data)
        self._grow_to(self._searched, now)
        self._more = False
        return True

    def _read_chunk(self, limit: int, now: float) -> TextChunk:
        """Return the lines in the next *limit* bytes, none if these end in the first."""
        assert self.file is not None
        data, before = self.read_on(limit, at_least=min(limit, self.unread))
        self._verify_beginning(data, self.position - before)
        data = self._without_tail(data, self.position - before)

        if self._in_line is None:
            self._in_line = self._is_in_long_line(data[:before], limit)
        size = len(data) - before
        self._grow_to(self.position + size, now)
        self._more = whole = size == limit  # the file may have more
        end, open_end = self.cutter.end_of_events(
            data,
            before,
            whole=whole,
            final=self.final or self.impatient,
            settled=self._rested == self.seen,
            position=self.position,
            in_line=self._in_line,
        )
        return TextChunk(self.position, data, before, end, open_end, self._in_line)

    def _is_in_long_line(self, before: bytes, limit: int) -> bool:
        """Return whether the position is in a line of which *limit* bytes were sent as a part.

        *before* is what lies just before it. What follows a shorter line that was sent without its
        end is a line of its own (rule P3).
        """
        assert self.file is not None
        size = limit - _CHARACTER_BYTES
        if self.position < size or self.cutter.has_line_end(before, self.position - len(before)):
            return False
        start = self.position - size
        return not self.cutter.has_line_end(self.file.pread(size, start), start)

    @property
    def cutter(self) -> EventCutter:
        """What cuts its bytes into events.

        After a restart the first ones may have to be read for it. Raises OSError.
        """
        if self._cutter is None and self.file is not None:
            self._cutter = make_cutter(self.settings, self.file.pread(HEAD_BYTES, 0))
        # of a closed file nothing is read that could be cut
        return self._cutter or LINES

    def give_back(self, chunk: TextChunk, position: int) -> None:
        """Move back to *position* in *chunk*, the last one read: what follows is read again."""
        self._keep_end(position)
        self.position, self._crc, self._more = position, crc32(chunk.tail_at(position)), True
        self._in_line = chunk.in_line and position == chunk.start
        self._searched = 0

    def _find_end(self, stat: FileStat) -> int:
        """Return the end, without NULs that nothing follows, and keep the bytes before it."""
        size, self._end = stat.size, None
        if size <= self.position:
            self._tail = None
            return size
        before = self._read_end(size)
        if not before.endswith(b"\0") or self.whole:
            self._tail = None
        else:
            assert self.file is not None
            self._tail, written = self._tail or UnwrittenTail(), max(self.seen, self.position)
            size = self._tail.find_end(self.file, written, size, stat.modified_ns)
            before = self._read_end(size)
        if size > self.position:
            self._end = (size, crc32(before))
        return size

    def _without_tail(self, data: bytes, begin: int) -> bytes:
        """Return *data*, read at *begin*, without NULs that nothing is known to follow (P5)."""
        if not data.endswith(b"\0") or self.whole or begin + len(data) <= self.seen:
            return data
        return data[: max(self.seen - begin, len(data.rstrip(b"\0")))]
