"""Errors of the store.

`StorageError` means that the store can't keep anything; a full disk or too many pending writes are
`TransientError`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from logdrive.errors import LogdriveError, Mistake, StorageError, TransientError, UnavailableError

_IN_USE: Final = (
    "another process has this store open: stop it (a receiver, or a pipeline that follows)"
)


class StoreInUseError(UnavailableError):
    """Another process holds the store; `endpoint.json` may name its network address."""

    def __init__(self, path: str) -> None:
        remedy = f"{_IN_USE}, or read through its network face"
        super().__init__(path, [Mistake("store", "", remedy)])


class StoreDirectoryError(StorageError):
    """The store's directory can't be made or written to."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the store's directory {path} can't be used: {reason}")
        self.reason = reason


class StoreDamagedError(StorageError):
    """Bytes that were durable once are not what was written.

    Names the file and the offset in it. Nothing is cut off.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at offset {offset}: {reason}")
        self.path = path
        self.offset = offset


class NoSuchSegmentError(LogdriveError):
    """The segment does not exist."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"no segment {segment!r}")
        self.segment = segment


class SegmentSealedError(LogdriveError):
    """The segment accepts no more appends."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"segment {segment!r} is sealed")
        self.segment = segment


class SegmentTruncatedError(LogdriveError):
    """The segment begins at *start*; the offset asked for is before it, or outside the segment."""

    def __init__(self, segment: str, start: int) -> None:
        super().__init__(f"segment {segment!r} begins at {start}")
        self.segment = segment
        self.start = start


class NumberMismatchError(LogdriveError):
    """The writer's last submitted number is *current*, not the one expected.

    Or the new number is not larger than it. Nothing was stored.
    """

    def __init__(self, current: int) -> None:
        super().__init__(f"the writer's number is {current}")
        self.current = current


class OffsetMismatchError(LogdriveError):
    """The segment's length with pending appends is *current*, not the expected one.

    Nothing was stored.
    """

    def __init__(self, current: int) -> None:
        super().__init__(f"the segment's length is {current}")
        self.current = current


class OverloadedError(TransientError):
    """*size* more bytes would be pending than `StoreLimits.pending` allows.

    `Store.room` waits until they fit.
    """

    def __init__(self, size: int, reason: str) -> None:
        super().__init__(reason)
        self.size = size


@asynccontextmanager
async def name_store_in_errors(program: str, key: str, value: str) -> AsyncIterator[None]:
    """Say of a store that can't be opened inside which *key* of *program*'s file names it.

    Raises `UnavailableError`, which `name_keys_in_errors` gives the file.
    """
    try:
        yield
    except StoreInUseError as error:
        remedy = f"{_IN_USE}, or name another directory"
        raise UnavailableError(program, [Mistake(key, value, remedy)]) from error
    except StoreDirectoryError as error:
        remedy = (
            f"its directory can't be used ({error.reason}): name one that this user may write to"
        )
        raise UnavailableError(program, [Mistake(key, value, remedy)]) from error
