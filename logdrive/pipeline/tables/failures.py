"""Errors of delta-rs and of pyarrow as ours: with the file or table that they are about."""

import errno
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from logdrive.errors import MAKE_ROOM, StorageError, file_error_text, os_error_text

_FULL: Final = os.strerror(errno.ENOSPC)  # also in messages of delta-rs
_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # in the messages of delta-rs
_DAMAGES: Final = (None, errno.EIO)
"""Numbers of errors that a file has which was changed: pyarrow's own have none."""
_PLACE = re.compile(r"(?P<directory>.*)/(?P<tables>bronze|silver|gold)/")


class UnreadableFileError(StorageError):
    """A file of a table can't be read as it was written. The message names it, and the remedy."""

    def __init__(self, path: str, reason: str, remedy: str) -> None:
        super().__init__(path, reason, remedy)  # as pickle makes it again
        self.path = path
        self.reason = reason
        self.remedy = remedy  # "" where the file itself may be fine

    def __str__(self) -> str:
        return "; ".join(filter(None, [f"{self.path} can't be read: {self.reason}", self.remedy]))


class MissingFileError(UnreadableFileError):
    """The file is gone."""


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


@contextmanager
def name_read(path: str) -> Iterator[None]:
    """Name the file at *path* in what pyarrow raises inside for it: it reads nothing else there.

    Raises `UnreadableFileError`.
    """
    try:
        yield
    except FileNotFoundError as error:  # all that pyarrow's text has is a path
        raise MissingFileError(path, "it is missing", _remedy(path)) from error
    except (pa.ArrowException, OSError) as error:
        number = error.errno if isinstance(error, OSError) else None
        said = os_error_text(error) if isinstance(error, OSError) else str(error)
        remedy = _remedy(path) if number in _DAMAGES else ""
        raise UnreadableFileError(path, _one_line(said), remedy) from error
    except (KeyError, UnicodeDecodeError) as error:  # names of its columns, or its labels
        reason = f"its bytes were changed ({error})"
        raise UnreadableFileError(path, reason, _remedy(path)) from error


def _one_line(said: str) -> str:
    return " ".join(said.split()).rstrip(".")


def _remedy(path: str) -> str:
    """Return what to do about a damaged file at *path*, by the tables that it is of."""
    place = _PLACE.match(path)
    if place is None:
        return "take it from a backup"
    command = f"logdrive pipeline rebuild {shlex.quote(place['directory'])} --table"
    if place["tables"] != "bronze":
        return f"make the tables anew with `{command} {place['tables']}`"
    return (
        f"make the tables anew with `{command} bronze --from URI` where the stream still has "
        "their lines, or take the file from a backup"
    )


def is_listed(directory: str) -> bool:
    """Return False if *directory* may not be listed: Delta then takes it for missing."""
    try:
        os.listdir(directory)
    except PermissionError:
        return False
    except OSError:
        return True
    return True
