"""The lock on a directory of tables: one process at a time fills them."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from logdrive.errors import StorageError
from logdrive.host.disk import Disk

_NAME = "lock"


@contextmanager
def lock_tables(place: str, disk: Disk) -> Iterator[None]:
    """Keep others from filling the tables in *place*, if there are any.

    Raises `StorageError` if another process fills them.
    """
    with ExitStack() as held:
        try:
            if os.path.isdir(place):
                held.enter_context(disk.lock(os.path.join(place, _NAME)))
        except BlockingIOError as error:
            raise StorageError(
                f"{place} is in use by another pipeline: stop it before this"
            ) from error
        yield


@contextmanager
def make_and_lock_tables(place: str, disk: Disk) -> Iterator[None]:
    """Make the directory *place* if it is missing, and keep others from filling tables in it.

    Raises `StorageError` if another process fills them, or nothing can be written there.
    """
    with ExitStack() as held:
        try:
            disk.make_directory(place)
            held.enter_context(disk.lock(os.path.join(place, _NAME)))
        except BlockingIOError as error:
            raise StorageError(f"{place} is in use by another pipeline") from error
        except OSError as error:
            raise StorageError(f"{place} can't be written: {error}") from error
        yield
