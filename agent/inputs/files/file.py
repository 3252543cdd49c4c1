"""One life of one file, as far as its bytes go: where it is, how far it was read, whether it is
still the same (rules G1, G4).

Reading never trusts what was true before: each read compares the first line and the up to 256 bytes
before the position, which come in the same `pread` as the new ones. A difference, or a file shorter
than the position, is a `SourceTruncatedError`.
"""

from zlib import crc32

from agent.config import InputTable
from agent.records.chunk import CHUNK_BYTES, TextChunk
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from agent.sources.readable import SourceTruncatedError
from logdrive.host.disk import Disk, File, FileStat
from logdrive.model.limits import FIRST_LINE_BYTES, TAIL_BYTES
from logdrive.model.numbers import check_in, check_of, number_of, position_of


class Generation:
    """Reads one life.

    `position` is the place after the last byte given out, `seen` the largest size ever seen.
    """

    __slots__ = (
        "_check",
        "_end",
        "_more",
        "_tail",
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
        self.place, self.settings = place, settings
        self.start = start
        """Where to start, by rule P2; what lies before it is not wanted."""
        self.first_line = first_line
        self.file: File | None = None
        self.position = 0
        self.seen = 0
        self.grown_at = 0.0
        """When it was last seen to have grown."""
        self.unnamed_since: float | None = None
        """Since when it has been known to have no name any more (link count 0)."""
        self.retired = False
        """Nothing will be read from it again."""
        self.final = False
        """A last line without newline is given out, too; until it grows (rule P3)."""
        self.impatient = impatient
        """The same, always: for `agent ship`, whose files are as long as they are."""
        # the bytes before the position; None where only their check is known
        self._tail: bytes | None = b""
        self._check = 0
        # where the file ended when it was looked at, and the bytes before that
        self._end: tuple[int, bytes] | None = None
        self.modified_ns = 0
        """When it was changed last, by the file system's clock, as far as it was looked at."""
        self._more = True  # there may be whole lines between position and seen

    # Handles -------------------------------------------------------------------------------------

    def open(self, disk: Disk) -> None:
        """Open it under its name, if that is still its own.

        Raises OSError, FileNotFoundError where it is not.
        """
        file = disk.open(self.place.name)
        try:
            own = self.place.is_at(file.stat())
        except OSError:
            file.close()
            raise
        if not own:
            file.close()
            raise FileNotFoundError(f"{self.place.name} is another file now")
        self.file = file

    def close(self) -> None:
        """Give the handle back."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def retire(self) -> None:
        """Note that nothing will be read from it again."""
        self.retired = True
        self.close()

    def successor(self) -> "Generation":
        """Return the next life of the same file, and hand the handle over to it."""
        generation = Generation(self.place, self.settings, impatient=self.impatient)
        generation.file, self.file, self.retired = self.file, None, True
        return generation

    # Looking -------------------------------------------------------------------------------------

    @property
    def unread(self) -> int:
        """Bytes seen and not given out."""
        return max(0, self.seen - self.position)

    @property
    def last_number(self) -> int:
        """The number of the last place before which the bytes are known: the end seen last, or the
        position; 0 where there is none.
        """
        if self._end is not None and self._end[0] > self.position:
            return number_of(*self._end)
        return number_of(self.position, self._tail) if self._tail else 0

    @property
    def has_lines(self) -> bool:
        """Whether there may be lines to give out."""
        return self.seen > self.position and (self._more or self.final or self.impatient)

    def look(self, stat: FileStat, now: float) -> None:
        """Take notice of *stat*.

        Raises `SourceTruncatedError` where the file is shorter than it was, or grew out of another
        beginning.

        `seen` must not grow with the bytes of a next life, so these are compared first.
        """
        if stat.size < self.seen:
            raise SourceTruncatedError
        # rewritten at the same length, too
        changed = stat.size > self.seen or stat.modified_ns != self.modified_ns
        if changed and self.file is not None:
            if self.first_line is not None:
                self.verify()
            self._compare_end(stat.size)
        self.modified_ns = stat.modified_ns
        if stat.links:
            self.unnamed_since = None
        elif self.unnamed_since is None:
            self.unnamed_since = now
        self._grow_to(stat.size, now)

    def _grow_to(self, size: int, now: float) -> None:
        if size > self.seen:
            self.seen, self.grown_at, self._more, self.final = size, now, True, False

    def rests(self) -> bool:
        """Tell, with one read of two bytes, that there is nothing new; False where that takes a
        closer look.
        """
        if (
            self.file is None
            or self.position != self.seen
            or not self.seen
            or self.unnamed_since is not None
        ):
            return False
        try:
            return len(self.file.pread(2, self.seen - 1)) == 1
        except OSError:
            return False  # the close look will say what is the matter

    def set_first_line(self, first_line: FirstLine) -> None:
        """Set the first line, as soon as it is known: reads compare it from now on."""
        self.first_line = first_line

    def restore_seen(self, seen: int, now: float) -> None:
        """Take over from the checkpoint the largest size seen; it counts as grown now."""
        self.seen = max(self.seen, seen)
        self.grown_at = now

    def release_last_line(self) -> None:
        """Let `read_lines` return a last line without newline, until the file grows (rule P3)."""
        self.final = True

    def head(self) -> bytes:
        """Return the file's first bytes, as many as a first line may have."""
        assert self.file is not None
        return self.file.pread(FIRST_LINE_BYTES, 0)

    # Reading -------------------------------------------------------------------------------------

    def set_start(self, position: int) -> None:
        """Set the position from which bytes are wanted (rule P2)."""
        self.start = position

    def take_all(self, size: int) -> None:
        """Count all *size* bytes of the file as seen and read: they were read at once."""
        self.position = self.seen = size

    def resume_from(self, number: int) -> None:
        """Read on from *number*, whose check is compared before the next read."""
        self.position = position_of(number)
        self._check = check_in(number)
        self._tail = None if self.position else b""
        self._more = True
        self.seen = max(self.seen, self.position)

    def matches_number(self, number: int) -> bool:
        """Tell whether a stored *number* can be this life's (rule D4)."""
        position, check = position_of(number), check_in(number)
        assert self.file is not None
        if position > self.file.stat().size:
            return False
        return not check or check_of(self._before(position)) == check

    def number_at(self, position: int) -> int:
        """Return the number of *position* from the file's own bytes.

        Raises `SourceTruncatedError` where they are not there.
        """
        tail = self._before(position)
        if len(tail) < min(position, TAIL_BYTES):
            raise SourceTruncatedError
        return number_of(position, tail)

    def read_lines(self, now: float, *, limit: int = CHUNK_BYTES) -> TextChunk | None:
        """Return the next lines, None where there are none.

        Raises `SourceTruncatedError` before giving out a wrong byte.

        A line longer than *limit* is given out in parts.
        """
        assert self.file is not None
        self._compare_first_line()
        tail = self._known_tail()
        data = self.file.pread(len(tail) + limit, self.position - len(tail))
        if not data.startswith(tail) or len(data) - len(tail) < min(limit, self.unread):
            raise SourceTruncatedError
        size = len(data) - len(tail)
        self._grow_to(self.position + size, now)
        whole = size == limit
        end, open_end = _taken(data, len(tail), whole=whole, final=self.final or self.impatient)
        self._more = whole
        if end == len(tail):
            return None
        chunk = TextChunk(self.position, data, len(tail), end, open_end)
        self.position += end - len(tail)
        self._tail = chunk.tail_at(self.position)
        if self._end is not None and self._end[0] == self.position:
            self._end = None  # the same bytes as the tail
        return chunk

    def give_back(self, chunk: TextChunk, position: int) -> None:
        """Give out again what of *chunk*, the last one read, lies behind *position*."""
        self.position, self._tail, self._more = position, chunk.tail_at(position), True

    def verify(self) -> None:
        """Compare all that was read before, without reading on.

        Raises `SourceTruncatedError` (rule G4).
        """
        self._compare_first_line()
        if self._before(self.position) != self._known_tail():
            raise SourceTruncatedError

    def _compare_end(self, size: int) -> None:
        """Compare the bytes before the end seen last, then keep those before the new one: a backlog
        can be replaced, too.

        Nothing else tells lives apart of which no byte was read and that have the same first line.
        """
        if self._end is not None and self._before(self._end[0]) != self._end[1]:
            raise SourceTruncatedError
        self._end = (size, self._before(size)) if size > self.position else None

    def _compare_first_line(self) -> None:
        assert self.file is not None
        assert self.first_line is not None
        if crc32(self.file.pread(self.first_line.span, 0)) != self.first_line.crc:
            raise SourceTruncatedError

    def _known_tail(self) -> bytes:
        """Return the bytes before the position as they were read, or, after `resume_from`, as their
        check says they were.
        """
        if self._tail is None:
            tail = self._before(self.position)
            if len(tail) < min(self.position, TAIL_BYTES) or (
                self._check and check_of(tail) != self._check
            ):
                raise SourceTruncatedError
            self._tail = tail
        return self._tail

    def _before(self, position: int) -> bytes:
        assert self.file is not None
        size = min(position, TAIL_BYTES)
        return self.file.pread(size, position - size) if size else b""


def _taken(data: bytes, begin: int, *, whole: bool, final: bool) -> tuple[int, bool]:
    """Return up to where to give out *data* from *begin* on, and whether that cuts a line; *whole*
    where the file may have more.
    """
    if final and not whole:
        return len(data), False
    lines = data.rfind(b"\n", begin) + 1
    if lines or not whole:
        return lines or begin, False
    return len(data) - _cut_character(data), True


def _cut_character(text: bytes) -> int:
    """Return how many bytes at the end of *text* are the beginning of a UTF-8 character that goes
    on.
    """
    for back in range(1, 4):
        byte = text[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            return back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
    return 0
