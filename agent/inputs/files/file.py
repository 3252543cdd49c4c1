"""Reads the bytes of one generation of a file, and notices when they are another's (rules G1, G4).

Each read compares what was read before: the first line, and the up to 256 bytes before the
position, which come in the same `pread` as the new ones. If they differ, or the file is shorter
than the position, it raises `SourceTruncatedError`. Of those bytes only a CRC-32 is kept: there are
ten thousand files.
"""

from zlib import crc32

from agent.config.files import InputTable
from agent.events.cutter import LINES, EventCutter
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from agent.sources.readable import SourceTruncatedError
from logdrive.host.disk import Disk, File, FileStat
from logdrive.model.limits import FIRST_LINE_BYTES, TAIL_BYTES
from logdrive.model.numbers import check_in, check_of, number_of, number_with_crc, position_of
from logdrive.records.chunk import CHUNK_BYTES, TextChunk


class Generation:
    """One generation of a file, the agent's `Readable` for files."""

    __slots__ = (
        "_check",
        "_crc",
        "_cutter",
        "_end",
        "_more",
        "_searched",
        "file",
        "final",
        "first_line",
        "grown_at",
        "impatient",
        "modified_ns",
        "place",
        "position",
        "retired",
        "seen",
        "settings",
        "start",
        "unnamed_since",
    )

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
        self.place = place
        self.settings = settings
        self.start = start
        self.first_line = first_line  # None until it is complete
        self.file: File | None = None  # the handle; None while closed

        self.position = 0  # after the last byte read
        self.seen = 0  # the largest size seen
        self.grown_at = 0.0  # when growth was last seen (monotonic, s)
        self.modified_ns = 0  # last change by the file system's clock, as of the last look
        self.unnamed_since: float | None = None  # since when it is seen to have no name (s)
        self.retired = False  # True: nothing will be read from it again
        self.final = False  # True: a last line without newline is read, until the file grows (P3)
        self.impatient = impatient
        self._cutter: EventCutter = LINES  # says where events end

        # whether there may be whole lines between position and seen
        self._more = True
        # where the search for the end of a long line goes on; below the position: at the position
        self._searched = 0
        # CRC-32 of the up to 256 bytes before the position; None if only their check is known
        self._crc: int | None = 0
        self._check = 0
        # the end at the last look, if it was beyond the position, and the same CRC-32 there
        self._end: tuple[int, int] | None = None

    def open_handle(self, disk: Disk) -> None:
        """Open the file under its name.

        Raises OSError; FileNotFoundError if the name is another file's now.
        """
        file = disk.open(self.place.name)
        try:
            stat = file.stat()
        except OSError:
            file.close()
            raise
        if not self.place.is_at(stat):
            file.close()
            raise FileNotFoundError(f"{self.place.name} is another file now")
        if stat.birth_ns == self.place.birth_ns:
            self.place.birth_ns = stat.birth_ns  # the object that the handle keeps
        self.file = file

    def close_handle(self) -> None:
        """Close the file if it is open."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def retire(self) -> None:
        """Close the file: nothing will be read from it again."""
        self.retired = True
        self.close_handle()

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
    def last_number(self) -> int:
        """The number of the last position whose bytes before it are known, 0 without one.

        That is the end seen last, or else the position.
        """
        if self._end is not None and self._end[0] > self.position:
            return number_with_crc(*self._end)
        return 0 if self._crc is None else number_with_crc(self.position, self._crc)

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
        if changed and self.file is not None:
            if self.first_line is not None:
                self.verify_content()
            self._verify_end(stat.size)

        self.modified_ns = stat.modified_ns
        if stat.links:
            self.unnamed_since = None
        elif self.unnamed_since is None:
            self.unnamed_since = now
        self._grow_to(stat.size, now)

    def _grow_to(self, size: int, now: float) -> None:
        if size > self.seen:
            self.seen, self.grown_at, self._more, self.final = size, now, True, False

    def is_at_rest(self, disk: Disk) -> bool:
        """Return whether a file that is read is as it was at the last close look.

        That takes one system call. False means that a close look is needed.
        """
        seen = self.seen
        if self.position != seen or self.unnamed_since is not None:
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

    def restore_seen(self, seen: int, now: float) -> None:
        """Set the largest size seen, from the checkpoint; the file counts as grown now."""
        self.seen = max(self.seen, seen)
        self.grown_at = now

    def release_last_line(self) -> None:
        """Let `read_lines` return a last line without newline, until the file grows (rule P3)."""
        self.final = True

    def read_head(self) -> bytes:
        """Return the file's first bytes, at most as many as a first line has."""
        assert self.file is not None
        return self.file.pread(FIRST_LINE_BYTES, 0)

    def set_start(self, position: int) -> None:
        """Set the position from which bytes are wanted (rule P2)."""
        self.start = position

    def on_whole_file_read(self, size: int) -> None:
        """Note that all *size* bytes of the file are read."""
        self.position = self.seen = size

    def resume_from(self, number: int) -> None:
        """Move to the position of *number*; the next read compares its check."""
        self.position = position_of(number)
        self._check = check_in(number)
        self._crc = None if self.position else 0
        self._more = True
        self._searched = 0
        self.seen = max(self.seen, self.position)

    def matches_number(self, number: int) -> bool:
        """Return whether a stored *number* can be this generation's (rule D4)."""
        position, check = position_of(number), check_in(number)
        assert self.file is not None
        if position > self.file.stat().size:
            return False
        return not check or check_of(self._read_before(position)) == check

    def number_at(self, position: int) -> int:
        """Return the number of *position*, made from the file's bytes.

        Raises `SourceTruncatedError` if the file is shorter.
        """
        tail = self._read_before(position)
        if len(tail) < min(position, TAIL_BYTES):
            raise SourceTruncatedError
        return number_of(position, tail)

    def read_lines(
        self, now: float, *, limit: int = CHUNK_BYTES, longest: int = 0
    ) -> TextChunk | None:
        """Return the next lines, None without any; *limit* bytes are read at once.

        Where they have no line end, up to *longest* are read; a longer line comes in parts. Raises
        OSError, or `SourceTruncatedError` before any byte of another generation is returned.
        """
        self._verify_first_line()
        if self._searched - self.position >= limit and self._line_goes_on(longest, now):
            return None
        chunk = self._read_chunk(limit, now)
        # its only line goes on: a writer may be about to end it
        if chunk.open_end and longest > limit:
            chunk = self._read_chunk(longest, now)
        if chunk.end == chunk.begin:
            self._searched = self.position + len(chunk.data) - chunk.begin
            return None

        self.position += chunk.end - chunk.begin
        self._crc = crc32(chunk.tail_at(self.position))
        if self._end is not None and self._end[0] == self.position:
            self._end = None  # the same bytes
        return chunk

    def _line_goes_on(self, longest: int, now: float) -> bool:
        """Return whether the line at the position is still without end, and may have one.

        Reads only what was not searched before: a line of 4 MiB may grow by a byte at a time.
        """
        assert self.file is not None
        room = self.position + longest - self._searched
        if self.final or self.impatient or room <= 0:
            return False
        data = self.file.pread(room, self._searched)
        if len(data) == room or b"\n" in data:
            return False
        self._searched += len(data)
        self._grow_to(self._searched, now)
        self._more = False
        return True

    def _read_chunk(self, limit: int, now: float) -> TextChunk:
        """Return the lines in the next *limit* bytes, none if these end in the first."""
        assert self.file is not None
        # one read for the bytes before the position, to compare, and the new ones
        crc, before = self._known_crc(), min(self.position, TAIL_BYTES)
        data = self.file.pread(before + limit, self.position - before)
        if crc32(data[:before]) != crc or len(data) - before < min(limit, self.unread):
            raise SourceTruncatedError

        size = len(data) - before
        self._grow_to(self.position + size, now)
        self._more = whole = size == limit  # the file may have more
        end, open_end = self._cutter.end_of_events(
            data, before, whole=whole, final=self.final or self.impatient
        )
        return TextChunk(self.position, data, before, end, open_end)

    def give_back(self, chunk: TextChunk, position: int) -> None:
        """Move back to *position* in *chunk*, the last one read: what follows is read again."""
        self.position, self._crc, self._more = position, crc32(chunk.tail_at(position)), True
        self._searched = 0

    def verify_content(self) -> None:
        """Compare the first line and the bytes before the position (rule G4).

        Raises `SourceTruncatedError` if they differ.
        """
        self._verify_first_line()
        if crc32(self._read_before(self.position)) != self._known_crc():
            raise SourceTruncatedError

    def _verify_end(self, size: int) -> None:
        """Compare the bytes before the end seen last, then keep those before the new end.

        Unread bytes can be replaced, too. If nothing was read, only this shows that a file with the
        same first line is another generation.
        """
        if self._end is not None and crc32(self._read_before(self._end[0])) != self._end[1]:
            raise SourceTruncatedError
        self._end = (size, crc32(self._read_before(size))) if size > self.position else None

    def _verify_first_line(self) -> None:
        """Compare the first line. Raises `SourceTruncatedError` if it differs."""
        assert self.file is not None
        assert self.first_line is not None
        if crc32(self.file.pread(self.first_line.span, 0)) != self.first_line.crc:
            raise SourceTruncatedError

    def _known_crc(self) -> int:
        """Return the CRC-32 of the bytes before the position, as they were read.

        After `resume_from` they are read again and compared with the number's check.
        """
        if self._crc is None:
            tail = self._read_before(self.position)
            if len(tail) < min(self.position, TAIL_BYTES) or (
                self._check and check_of(tail) != self._check
            ):
                raise SourceTruncatedError
            self._crc = crc32(tail)
        return self._crc

    def _read_before(self, position: int) -> bytes:
        """Return the up to 256 bytes before *position*, fewer if the file is shorter."""
        assert self.file is not None
        size = min(position, TAIL_BYTES)
        return self.file.pread(size, position - size) if size else b""
