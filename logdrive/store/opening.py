"""Opens a store's directory: creates it, locks it, and recovers what is in it."""

import errno
import os
from contextlib import ExitStack, suppress
from random import Random
from uuid import UUID

from logdrive.errors import file_error_text
from logdrive.host.disk import Disk
from logdrive.store.errors import StoreDirectoryError, StoreInUseError
from logdrive.store.limits import StoreLimits
from logdrive.store.recovery import Recovered, recover

LOCK_NAME = "lock"


def open_and_recover(
    disk: Disk, path: str, limits: StoreLimits, random: Random, lock: ExitStack
) -> Recovered:
    """Return the recovered store in *path*; *lock* holds its lock then.

    Raises `StoreInUseError`, `StoreDamagedError`, `StorageError`.
    """
    try:
        _make_directory(disk, path)
        lock.enter_context(disk.lock(os.path.join(path, LOCK_NAME)))
    except BlockingIOError:
        raise StoreInUseError(path) from None
    except OSError as error:
        raise StoreDirectoryError(path, file_error_text(error)) from error
    return recover(disk, path, limits, lambda: UUID(bytes=random.randbytes(16), version=4))


def is_held(disk: Disk, path: str) -> bool:
    """Return whether a process has the store in *path* open, or may have."""
    lock = os.path.join(path, LOCK_NAME)
    if not _exists(disk, lock):
        return False
    try:
        with disk.lock(lock):
            return False
    except OSError as error:
        # a file that we may not open to lock it says nothing: the store may be held
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return True


def _make_directory(disk: Disk, path: str) -> None:
    """Create *path* and its parents durably.

    Directories are synced even if they exist: an earlier start may have been killed before it
    synced.
    """
    missing = []
    existing = path
    while not _exists(disk, existing):
        missing.append(existing)
        existing = os.path.dirname(existing)
    _sync_name(disk, existing)
    for directory in reversed(missing):
        disk.make_directory(directory)
        _sync_name(disk, directory)


def _sync_name(disk: Disk, directory: str) -> None:
    with suppress(PermissionError):  # we did not create a parent that we can't read
        disk.sync_directory(os.path.dirname(directory))


def _exists(disk: Disk, path: str) -> bool:
    try:
        disk.stat(path)
    except FileNotFoundError:
        return False
    return True
