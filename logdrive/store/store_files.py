"""Where a store's files are, for processes on the same host that read its log themselves."""

import os
from dataclasses import dataclass

from logdrive.host.boot import boot_id
from logdrive.host.disk import Disk
from logdrive.store.opening import LOCK_NAME


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """A store's directory, as one host sees it.

    Another process sees the same directory at the same path if its kernel is the same (*host*), and
    the file that it finds there, too (*identity*). A copy of the directory has another identity.
    """

    host: str
    """Id of the kernel's start, "" where the system tells none."""
    directory: str
    identity: str
    """Device and inode of the lock file, which stays as long as the directory does."""


def find_store_files(disk: Disk, directory: str, host: str | None = None) -> StoreFiles:
    """Return where the store in *directory* is. Raises OSError if it can't be seen from here.

    *host* is another than this machine, for tests.
    """
    lock = disk.stat(os.path.join(directory, LOCK_NAME))
    return StoreFiles(boot_id() if host is None else host, directory, f"{lock.device}:{lock.inode}")
