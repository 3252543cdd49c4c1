"""Opens files as agents read them: of a compressed file, told by its name, the content."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, BinaryIO

from agent.inputs.files.compressed.codecs import DamagedError, IncompleteError
from agent.inputs.files.compressed.unpacked import UnpackedFile
from agent.inputs.files.paths.suffixes import suffix_of
from logdrive.errors import MAKE_ROOM, StorageError, os_error_text
from logdrive.host.disk import File, SystemDisk
from logdrive.model.units import MIB

if TYPE_CHECKING:
    from logdrive.pipeline.audit.against import ReadableFile

_PIECE_BYTES = MIB


@contextmanager
def open_content(path: str) -> Iterator[tuple["ReadableFile", int]]:
    """Open the file at *path* inside the context: its content, and how many bytes that has.

    A compressed one is unpacked into a temporary file, which has no name. Threads may share the
    content. Raises `StorageError`, and OSError if the file can't be read.
    """
    with closing(SystemDisk().open(path)) as file:
        suffix = suffix_of(path)
        if not suffix:
            yield file, file.stat().size
            return
        with tempfile.TemporaryFile(prefix="logdrive-") as target:
            size = _unpack(path, file, suffix, target)
            yield _Unpacked(target.fileno()), size


def read_beginning(path: str, size: int) -> bytes:
    """Return the first *size* bytes of what `open_content` opens, unpacking no more.

    A file that is not compressed may be a pipe. Raises as `open_content`.
    """
    suffix = suffix_of(path)
    if not suffix:
        with open(path, "rb") as plain:
            return plain.read(size)
    with closing(SystemDisk().open(path)) as file, _named(path):
        return UnpackedFile(file, suffix).pread(size, 0)


class _Unpacked:
    """Reads a temporary file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pread(self, size: int, offset: int) -> bytes:
        """Return bytes; see `ReadableFile`."""
        pieces = []
        while size and (piece := os.pread(self._descriptor, size, offset)):
            pieces.append(piece)
            size, offset = size - len(piece), offset + len(piece)
        return b"".join(pieces)


def _unpack(path: str, file: File, suffix: str, target: BinaryIO) -> int:
    """Write the content of the compressed *file* to *target*; return its size."""
    content, size = UnpackedFile(file, suffix), 0
    while True:
        with _named(path):
            piece = content.pread(_PIECE_BYTES, size)
        if not piece:
            return size
        _write(path, target, piece)
        size += len(piece)


def _write(path: str, target: BinaryIO, piece: bytes) -> None:
    try:
        target.write(piece)
        target.flush()
    except OSError as error:
        raise StorageError(
            f"{path} can't be unpacked into {tempfile.gettempdir()}: {os_error_text(error)}; "
            f"{MAKE_ROOM}, or set TMPDIR to a directory that has it"
        ) from error


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Name the file at *path* in an error of unpacking it."""
    try:
        yield
    except DamagedError as error:
        raise StorageError(f"{path} can't be unpacked, it is damaged: {error}") from error
    except IncompleteError as error:
        raise StorageError(
            f"{path} can't be unpacked to its end: it is still being written, or was cut"
        ) from error
