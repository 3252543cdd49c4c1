"""Compares what was read of a file with what is there (rule G4).

Of the bytes that were read, CRC-32s are kept: of the first line, and of the up to 256 bytes before
the position. If they differ, the file is another generation: `SourceTruncatedError`.
"""

from zlib import crc32

from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from agent.sources.readable import SourceTruncatedError
from logdrive.host.disk import Disk, File
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import check_in, check_of, number_of, position_of


class FileContent:
    """An open or closed file, and what is known of its bytes. `Generation` reads it."""

    __slots__ = ("_check", "_crc", "file", "first_line", "place", "position")

    def __init__(self, place: FileLocation, first_line: FirstLine | None) -> None:
        self.place = place
        self.first_line = first_line  # None until it is complete
        self.file: File | None = None  # the handle; None while closed
        self.position = 0  # after the last byte read
        # CRC-32 of the up to 256 bytes before the position; None if only their check is known
        self._crc: int | None = 0
        self._check = 0

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
