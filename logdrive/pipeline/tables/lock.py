"""The locks on a directory of tables.

One process at a time fills them as it follows what they are made of. Bronze may be filled backwards
beside it, by one more process; the two take turns at commits.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from logdrive.errors import MAKE_ROOM, StorageError, os_error_text
from logdrive.host.disk import Disk
from logdrive.pipeline.tables.failures import FullDiskError

FOLLOW: Final = "lock"
"""The lock of the process that follows."""
PUBLISH: Final = "publish.lock"
"""The lock of the process that copies the tables to a bucket."""
BACKFILL: Final = "backfill.lock"
"""The lock of the process that fills what lies before the beginning of bronze."""
REBUILD: Final = "rebuild.lock"
"""The lock of the process that makes bronze anew, or erases: held from its start to its end."""
_COMMIT: Final = "commit.lock"
_HOLDERS: Final = {
    FOLLOW: "another pipeline",
    PUBLISH: "another publication",
    BACKFILL: "another backfill, or by an erasure or a rebuild",
    REBUILD: "a rebuild of bronze, or by an erasure",
}
_LOOK_SECONDS: Final = 0.002  # between two tries: a commit takes some milliseconds


@contextmanager
def lock_tables(place: str, disk: Disk, name: str = FOLLOW) -> Iterator[None]:
    """Keep others from filling the tables in *place*, if there are any.

    Raises `StorageError` if another process fills them.
    """
    with ExitStack() as held:
        try:
            if os.path.isdir(place):
                held.enter_context(disk.lock(os.path.join(place, name)))
        except BlockingIOError as error:
            holder = "a backfill" if name == BACKFILL else _HOLDERS[name]
            raise StorageError(f"{place} is in use by {holder}: stop it before this") from error
        except OSError as error:
            raise StorageError(
                f"{place} can't be locked: {os_error_text(error)}; run this as the user who owns "
                "the tables"
            ) from error
        yield


@contextmanager
def make_and_lock_tables(place: str, disk: Disk, name: str = FOLLOW) -> Iterator[None]:
    """Make the directory *place* if it is missing, and keep others from filling tables in it.

    Raises `StorageError` if another process fills them, or nothing can be written there:
    `FullDiskError` if the disk is full.
    """
    with ExitStack() as held:
        try:
            disk.make_directory(place)
            held.enter_context(disk.lock(os.path.join(place, name)))
        except BlockingIOError as error:
            raise StorageError(
                f"{place} is in use by {_HOLDERS[name]}: stop it before this"
            ) from error
        except OSError as error:
            text = f"{place} can't be written: {error}"
            if error.errno == errno.ENOSPC:
                raise FullDiskError(f"{text}; {MAKE_ROOM}") from error
            raise StorageError(text) from error
        yield


@contextmanager
def take_turn(place: str, disk: Disk) -> Iterator[None]:
    """Wait until no other process commits to the tables in *place*, and keep others from it.

    Costs about 20 µs if there is none. The kernel ends the turn of a process that is killed.
    """
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(disk.lock(os.path.join(place, _COMMIT)))
                break
            except BlockingIOError:
                time.sleep(_LOOK_SECONDS)
        yield
