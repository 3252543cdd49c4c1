"""Errors of delta-rs and of pyarrow as ours: with the file or table that they are about."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from logdrive.errors import MAKE_ROOM, StorageError, file_error_text, os_error_text

_FULL: Final = os.strerror(errno.ENOSPC)  # also in messages of delta-rs
_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # in the messages of delta-rs


class FullDiskError(StorageError):
    """A table's disk is full. A program that runs on may find room there later."""


def storage_error(path: str, error: Exception) -> StorageError:
    """Return *error* in one line: delta-rs prints its causes as a colored tree.

    It is a `FullDiskError` where that is the cause.
    """
    said = os_error_text(error) if isinstance(error, OSError) else str(error)
    text = _COLOR.sub("", said)
    causes = [line.strip(" ↳") for line in text.splitlines()]
    reason = f"{path} can't be read or written: {': '.join(cause for cause in causes if cause)}"
    return FullDiskError(f"{reason}; {MAKE_ROOM}") if _FULL in text else StorageError(reason)


def failure_text(error: Exception) -> str:
    """Return what went wrong, in one line; MemoryError says nothing by itself."""
    if isinstance(error, MemoryError):
        return "no memory is left"
    return file_error_text(error) if isinstance(error, OSError) else str(error)


@contextmanager
def name_written(path: str) -> Iterator[None]:
    """Name the file at *path* in an OSError that is raised inside: pyarrow's name none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # it says by itself what it is about
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from error


def is_listed(directory: str) -> bool:
    """Return False if *directory* may not be listed: Delta then takes it for missing."""
    try:
        os.listdir(directory)
    except PermissionError:
        return False
    except OSError:
        return True
    return True
