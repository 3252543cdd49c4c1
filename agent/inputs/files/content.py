"""Compares what was read and seen of a file with what is there (rule G4).

Of the bytes that were read, CRC-32s are kept: of the first line, and of the up to 256 bytes before
the position; of those that were only seen, of the up to 256 bytes before the end. If they differ,
the file is another generation: `SourceTruncatedError`.
"""

from zlib import crc32

from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from agent.sources.readable import SourceTruncatedError
from logdrive.host.disk import Disk, File
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import check_in, check_of, number_of, number_with_crc, position_of


class FileContent:
    """An open or closed file, and what is known of its bytes. `Generation` reads it."""

    __slots__ = ("_check", "_crc", "_end", "file", "first_line", "place", "position", "seen")

    def __init__(self, place: FileLocation, first_line: FirstLine | None) -> None:
        self.place = place
        self.first_line = first_line  # None until it is complete
        self.file: File | None = None  # the handle; None while closed
        self.position = 0  # after the last byte read
        # CRC-32 of the up to 256 bytes before the position; None if only their check is known
        self._crc: int | None = 0
        self._check = 0
        self.seen = 0  # the largest size seen
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

    @property
    def last_number(self) -> int:
        """The number of the last position whose bytes before it are known, 0 without one.

        That is the end seen last, or else the position.
        """
        if self._end is not None and self._end[0] > self.position:
            return number_with_crc(*self._end)
        return 0 if self._crc is None else number_with_crc(self.position, self._crc)

    def matches_number(self, number: int) -> bool:
        """Return whether a stored *number* can be this generation's (rule D4).

        Raises OSError, or `SourceTruncatedError` if it can't, but the file has other bytes now than
        those that were seen: it says nothing of these.
        """
        position, check = position_of(number), check_in(number)
        assert self.file is not None
        if position <= self.file.stat().size and (
            not check or check_of(self._read_before(position)) == check
        ):
            return True
        self.verify_content()
        self.verify_seen()
        return False

    def number_at(self, position: int) -> int:
        """Return the number of *position*, made from the file's bytes.

        Raises `SourceTruncatedError` if the file is shorter.
        """
        tail = self._read_before(position)
        if len(tail) < min(position, TAIL_BYTES):
            raise SourceTruncatedError
        return number_of(position, tail)

    def read_on(self, limit: int, at_least: int) -> tuple[bytes, int]:
        """Return up to *limit* bytes at the position, behind the up to 256 that precede it, and how
        many the latter are.

        Raises OSError, or `SourceTruncatedError` if the latter are others than those read before,
        or fewer than *at_least* follow them.
        """
        assert self.file is not None
        # one read for the bytes before the position, to compare, and the new ones
        crc, before = self._known_crc(), min(self.position, TAIL_BYTES)
        data = self.file.pread(before + limit, self.position - before)
        if crc32(data[:before]) != crc or len(data) - before < at_least:
            raise SourceTruncatedError
        return data, before

    def verify_content(self) -> None:
        """Compare the first line and the bytes before the position (rule G4).

        Raises `SourceTruncatedError` if they differ.
        """
        self._verify_first_line()
        if crc32(self._read_before(self.position)) != self._known_crc():
            raise SourceTruncatedError

    def verify_seen(self, head: bytes = b"") -> None:
        """Raise `SourceTruncatedError` if the file lacks bytes that were seen, or has others.

        Where *head*, its first bytes read just now, has all of them, nothing is read again.
        """
        end, crc = self._end or (0, 0)
        if max(self.seen, end) > len(head):
            self._verify_size(self.seen)
            self._verify_end()
        elif crc32(head[max(0, end - TAIL_BYTES) : end]) != crc:
            raise SourceTruncatedError

    def _verify_first_line(self) -> None:
        """Compare the first line. Raises `SourceTruncatedError` if it differs."""
        assert self.file is not None
        assert self.first_line is not None
        if crc32(self.file.pread(self.first_line.span, 0)) != self.first_line.crc:
            raise SourceTruncatedError

    def _verify_beginning(self, data: bytes, begin: int) -> None:
        """Compare the first line and the end seen last with *data*, read at *begin*.

        As long as few bytes precede the position, nothing else that came in one read with *data*
        shows that it is of the next life. Raises `SourceTruncatedError`.
        """
        first_line = self.first_line
        if first_line is None or self.position > first_line.span:
            return
        known = [(0, first_line.span, first_line.crc)]
        if self._end is not None:
            size, crc = self._end
            known.append((max(0, size - TAIL_BYTES), size, crc))
        for start, end, crc in known:
            is_here = begin <= start and end <= begin + len(data)
            if is_here and crc32(data[start - begin : end - begin]) != crc:
                raise SourceTruncatedError

    def _verify_end(self) -> None:
        """Compare the bytes before the end seen last: unread bytes can be replaced, too.

        If nothing was read, only this shows that a file with the same first line is another
        generation. Raises `SourceTruncatedError`.
        """
        if self._end is not None and crc32(self._read_before(self._end[0])) != self._end[1]:
            raise SourceTruncatedError

    def _verify_size(self, size: int) -> None:
        """Raise `SourceTruncatedError` if the file has fewer than *size* bytes now.

        It is asked for its size: some file systems name more than can be read.
        """
        assert self.file is not None
        if self.file.stat().size < size:
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

    def _read_end(self, size: int) -> bytes:
        """Return the up to 256 bytes before *size*, which was the file's a moment ago.

        Raises `SourceTruncatedError` if it is shorter by now.
        """
        before = self._read_before(size)
        if len(before) < min(size, TAIL_BYTES):
            self._verify_size(size)
            # truncated and written again meanwhile, it has these bytes
            before = self._read_before(size)
        return before

    def _keep_end(self, position: int) -> None:
        """Keep what is known of the bytes before the position, as it moves back to *position*.

        Else a restart could compare no more than the first line (rule G4).
        """
        end = self._end[0] if self._end is not None else 0
        if self._crc is not None and self.position > max(position, end):
            self._end = (self.position, self._crc)
