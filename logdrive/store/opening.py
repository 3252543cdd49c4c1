"""Finds or makes a store's directory, takes its lock, and recovers what is in it."""

import errno
import os
from contextlib import ExitStack, suppress
from random import Random
from uuid import UUID

from logdrive.errors import StorageError
from logdrive.host.disk import Disk, words_of
from logdrive.store.errors import StoreInUseError
from logdrive.store.limits import StoreLimits
from logdrive.store.recovery import Recovered, recover

LOCK_NAME = "lock"


def opened(
    disk: Disk, path: str, limits: StoreLimits, random: Random, lock: ExitStack
) -> Recovered:
    """Return the store in *path*, whose lock *lock* then holds.

    Raises `StoreInUseError`, `DamagedError`, `StorageError`.
    """
    try:
        _make_directory(disk, path)
        lock.enter_context(disk.lock(os.path.join(path, LOCK_NAME)))
    except BlockingIOError:
        raise StoreInUseError(path) from None
    except OSError as error:
        raise StorageError(
            f"the store's directory {path} can't be used: {words_of(error)}"
        ) from error
    return recover(disk, path, limits, lambda: UUID(bytes=random.randbytes(16), version=4))


def is_held(disk: Disk, path: str) -> bool:
    """Tell whether a process has the store in *path* open, or might have."""
    lock = os.path.join(path, LOCK_NAME)
    if not _exists(disk, lock):
        return False
    try:
        with disk.lock(lock):
            return False
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return True


def _make_directory(disk: Disk, path: str) -> None:
    """Make *path* with its parents, durably; also what an earlier start made and was killed before
    it synced.
    """
    missing = []
    there = path
    while not _exists(disk, there):
        missing.append(there)
        there = os.path.dirname(there)
    _sync_name(disk, there)
    for directory in reversed(missing):
        disk.make_directory(directory)
        _sync_name(disk, directory)


def _sync_name(disk: Disk, directory: str) -> None:
    with suppress(PermissionError):  # a parent that we may not read is not one that we made
        disk.sync_directory(os.path.dirname(directory))


def _exists(disk: Disk, path: str) -> bool:
    try:
        disk.stat(path)
    except FileNotFoundError:
        return False
    return True
