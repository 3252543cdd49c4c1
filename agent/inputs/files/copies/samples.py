"""Bytes of plain files, as they are compared to tell copies (rule G5)."""

from typing import Final
from zlib import crc32

from agent.inputs.files.copies.judge import Sample
from agent.inputs.files.prefix import PREFIX_BYTES, extend_prefix
from logdrive.host.disk import File
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import check_in, check_of, number_of, position_of

_COMPARED_BYTES: Final = PREFIX_BYTES
"""Bytes that are compared at the beginning and at the end of what two files have in common."""


class PlainSample:
    """The bytes of an open file, as they are when they are asked for."""

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self._prefix: bytes | None = None

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    @property
    def text_size(self) -> int:
        """As many: NULs are looked for only in what is read anyway, as a compressed file is."""
        return self._size

    @property
    def prefix(self) -> bytes:
        """CRCs of the first of them; read when they are first asked for."""
        if self._prefix is None:
            self._prefix = extend_prefix(b"", self._size, self._file.pread)
        return self._prefix

    def agrees_at(self, number: int) -> bool:
        """Return whether the bytes before a position have the check in *number*, or it has none."""
        position, check = position_of(number), check_in(number)
        size = min(position, TAIL_BYTES)
        return not check or check_of(self._file.pread(size, position - size)) == check

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*."""
        return self._file.pread(size, offset)


class LivingPlainFile:
    """The open file of a living generation."""

    def __init__(self, file: File) -> None:
        stat = file.stat()
        self._file = file
        self._size = stat.size
        self._has_name = stat.links > 0

    @property
    def has_name(self) -> bool:
        """Whether it is still in a directory."""
        return self._has_name

    @property
    def size(self) -> int:
        """Its size."""
        return self._size

    def begins_like(self, sample: Sample) -> bool:
        """Return whether the file and *sample* agree, at the beginning and at the end of what both
        have. Raises OSError.
        """
        both = min(self._size, sample.size)
        own = extend_prefix(b"", both, self._file.pread)
        if own != sample.prefix[: len(own)]:
            return False
        if not isinstance(sample, PlainSample):
            if sample.size > self._size:
                return False
            tail = self._file.pread(min(both, TAIL_BYTES), max(0, both - TAIL_BYTES))
            return sample.agrees_at(number_of(both, tail))
        return all(
            crc32(self._file.pread(min(both, _COMPARED_BYTES), begin))
            == crc32(sample.pread(min(both, _COMPARED_BYTES), begin))
            for begin in (0, max(0, both - _COMPARED_BYTES))
        )
