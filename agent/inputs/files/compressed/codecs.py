"""Unpacks compressed files piece by piece: gzip, bzip2, xz and zstd.

A file is a sequence of streams (gzip members, zstd frames), each with a trailer, and perhaps zeros
between them. No piece is longer than asked for, and no stream may need more memory than the limits
here, so that what a file does not say truly costs time, never memory.
"""

import io
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

import zstandard
from isal import igzip_lib

from logdrive.host.disk import File
from logdrive.model.units import KIB, MIB

_INPUT_BYTES: Final = 64 * KIB
"""Compressed bytes that are read at once."""
_XZ_BYTES: Final = 80 * MIB
"""Limit on the memory for one stream of xz: `xz -9` needs 65 MiB."""
_ZSTD_WINDOW_BYTES: Final = 32 * MIB
"""Limit on the window of a zstd frame: that of `zstd -19` has 8 MiB, only --long asks for more."""


class DamagedError(Exception):
    """The compressed bytes are not what their format says, or ask for too much memory.

    Never leaves the agent.
    """


class IncompleteError(Exception):
    """The compressed bytes end before the trailer: they are still being written, or were cut.

    Never leaves the agent.
    """


class Unpacker(Protocol):
    """Reads one compressed file from its beginning."""

    def read(self, room: int) -> bytes:
        """Return the next bytes, at most *room*, b"" after the last trailer.

        Raises OSError, `DamagedError`, `IncompleteError`.
        """
        ...


def open_unpacker(file: File, suffix: str) -> Unpacker:
    """Return what reads *file*, whose name ends with *suffix*, one of `SUFFIXES`."""
    if suffix == ".zst":
        return _ZstdUnpacker(file)
    return _StreamsUnpacker(file, *_STREAMS[suffix]())


class _Decompressor(Protocol):
    """What the libraries for gzip, bzip2 and xz have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


_Opening = tuple[Callable[[], _Decompressor], tuple[type[Exception], ...]]
"""What opens a stream, and the errors of bytes that are no such stream."""


def _gzip() -> _Opening:
    error = cast("type[Exception]", igzip_lib.IsalError)

    def open_gzip() -> _Decompressor:
        return cast("_Decompressor", igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP))

    return open_gzip, (error,)


def _bzip2() -> _Opening:
    # not sooner: the agent's command is imported without it (`logdrive.cli.main`)
    import bz2

    return bz2.BZ2Decompressor, (OSError, ValueError)


def _xz() -> _Opening:
    import lzma  # likewise

    def open_xz() -> _Decompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_BYTES)

    return open_xz, (lzma.LZMAError,)


_STREAMS: Final[Mapping[str, Callable[[], _Opening]]] = {".gz": _gzip, ".bz2": _bzip2, ".xz": _xz}
"""By suffix."""


class _StreamsUnpacker:
    """Reads a file of streams whose library takes their bytes and keeps what is not out yet."""

    def __init__(
        self,
        file: File,
        open_stream: Callable[[], _Decompressor],
        errors: tuple[type[Exception], ...],
    ) -> None:
        self._file = file
        self._offset = 0  # of the next compressed byte to read
        self._waiting = b""  # compressed bytes that were read, for the next stream
        self._open_stream = open_stream
        self._errors = errors
        self._began = False  # whether there was a stream
        self._stream: _Decompressor | None = None  # None between two streams

    def read(self, room: int) -> bytes:
        """Return the next bytes; see `Unpacker`."""
        while True:
            if self._stream is None and not self._begin_stream():
                return b""
            assert self._stream is not None
            data = self._next_input()
            try:
                out = self._stream.decompress(data, room)
                if self._stream.eof:
                    self._waiting, self._stream = self._stream.unused_data, None
            except self._errors as error:
                raise DamagedError(str(error)) from error
            if out:
                return out

    def _begin_stream(self) -> bool:
        """Begin the next stream; return False if there is none. Zeros may stand between two."""
        data = self._waiting or self._read_input()
        while data and self._began and not (data := data.lstrip(b"\0")):
            data = self._read_input()
        if not data and not self._began:
            raise IncompleteError
        self._began, self._waiting = True, data
        self._stream = self._open_stream() if data else None
        return bool(data)

    def _next_input(self) -> bytes:
        assert self._stream is not None
        if self._waiting:
            data, self._waiting = self._waiting, b""
            return data
        if not self._stream.needs_input:
            return b""
        if not (data := self._read_input()):
            raise IncompleteError
        return data

    def _read_input(self) -> bytes:
        data = self._file.pread(_INPUT_BYTES, self._offset)
        self._offset += len(data)
        return data


_FRAME_HEAD_BYTES: Final = 18
_BLOCK_HEAD_BYTES: Final = 3
_RLE_BLOCK: Final = 1
_RESERVED_BLOCK: Final = 3
_CHECKSUM_BYTES: Final = 4
_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)


class _ZstdUnpacker:
    """Reads a file of zstd frames (RFC 8878).

    The library does not tell a frame that was cut from a whole one: the heads of its blocks do,
    without unpacking them.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._size = file.stat().size
        self._begin = 0  # where the frame being read begins
        self._end = 0  # where it ends
        self._reader: zstandard.ZstdDecompressionReader | None = None

    def read(self, room: int) -> bytes:
        """Return the next bytes; see `Unpacker`."""
        while True:
            if self._reader is None and not self._begin_frame():
                return b""
            assert self._reader is not None
            try:
                if out := self._reader.read(room):
                    return out
            except zstandard.ZstdError as error:
                raise DamagedError(str(error)) from error
            self._reader, self._begin = None, self._end

    def _begin_frame(self) -> bool:
        """Begin the next frame; return False if there is none."""
        if not self._size:
            raise IncompleteError
        self._end = self._begin
        while self._begin < self._size and self._reader is None:
            self._end = self._find_end(self._begin)
            head = self._file.pread(4, self._begin)
            if int.from_bytes(head, "little") in _SKIPPABLE:
                self._begin = self._end
                continue
            source = io.BufferedReader(_Part(self._file, self._begin, self._end), _INPUT_BYTES)
            unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
            self._reader = unpacker.stream_reader(source, read_size=_INPUT_BYTES)
        return self._reader is not None

    def _find_end(self, begin: int) -> int:
        """Return where the frame at *begin* ends. Raises `IncompleteError`, `DamagedError`."""
        head = self._file.pread(_FRAME_HEAD_BYTES, begin)
        if len(head) >= 8 and int.from_bytes(head[:4], "little") in _SKIPPABLE:
            return self._checked(begin + 8 + int.from_bytes(head[4:8], "little"))
        try:
            at = begin + zstandard.frame_header_size(head)
            has_checksum = zstandard.get_frame_parameters(head).has_checksum
        except zstandard.ZstdError as error:
            if len(head) < _FRAME_HEAD_BYTES:
                raise IncompleteError from error
            raise DamagedError(str(error)) from error
        last = False
        while not last:
            block = int.from_bytes(self._read_head(at), "little")
            last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
            if kind == _RESERVED_BLOCK:
                raise DamagedError("a block of a reserved type")
            at = self._checked(at + _BLOCK_HEAD_BYTES + (1 if kind == _RLE_BLOCK else size))
        return self._checked(at + (_CHECKSUM_BYTES if has_checksum else 0))

    def _read_head(self, at: int) -> bytes:
        head = self._file.pread(_BLOCK_HEAD_BYTES, at)
        if len(head) < _BLOCK_HEAD_BYTES:
            raise IncompleteError
        return head

    def _checked(self, end: int) -> int:
        if end > self._size:
            raise IncompleteError
        return end


class _Part(io.RawIOBase):
    """Some bytes of a file, as the library for zstd reads them."""

    def __init__(self, file: File, begin: int, end: int) -> None:
        self._file = file
        self._offset = begin
        self._end = end

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill *buffer* with the next bytes; return how many."""
        view = memoryview(cast("bytearray", buffer))
        data = self._file.pread(min(len(view), self._end - self._offset), self._offset)
        view[: len(data)] = data
        self._offset += len(data)
        return len(data)
