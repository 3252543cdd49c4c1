"""Finds or makes a store's directory, takes its lock, and recovers what is in it."""

import os
from contextlib import ExitStack
from random import Random
from uuid import UUID

from logdrive.disk import Disk
from logdrive.errors import StorageError
from logdrive.limits import StoreLimits
from logdrive.store.errors import StoreInUseError
from logdrive.store.recovery import Recovered, recover

LOCK_NAME = "lock"


def opened(disk: Disk, path: str, limits: StoreLimits, random: Random, lock: ExitStack) -> Recovered:
    """Return the store in *path*, whose lock *lock* then holds. Raises `StoreInUseError`, `DamagedError`, `StorageError`."""
    try:
        _make_directory(disk, path)
        lock.enter_context(disk.lock(os.path.join(path, LOCK_NAME)))
    except BlockingIOError:
        raise StoreInUseError(path) from None
    except OSError as error:
        raise StorageError(f"the store's directory {path} can't be used: {error}") from error
    return recover(disk, path, limits, lambda: UUID(bytes=random.randbytes(16), version=4))


def _make_directory(disk: Disk, path: str) -> None:
    """Make *path* with its parents, durably, down from the first directory that was there."""
    missing = []
    while not _exists(disk, path):
        missing.append(path)
        path = os.path.dirname(path)
    if missing:
        disk.make_directory(missing[0])
        for made in missing:
            disk.sync_directory(os.path.dirname(made))


def _exists(disk: Disk, path: str) -> bool:
    try:
        disk.stat(path)
    except FileNotFoundError:
        return False
    return True
