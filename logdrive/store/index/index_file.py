"""The index on disk: the one written last, and the one before it.

The log of a store from which nothing was freed can be read from its beginning, and its index is a
cache. Once files were freed, a start needs an index; so there are two, and no file is freed that a
start from the older one would have to read: of the log, or of what an index keeps in files of its
own (`logdrive.store.index.pages`).
"""

import os
from typing import Final

from logdrive.host import faults
from logdrive.host.disk import Disk, write_beside
from logdrive.store.index.snapshot import Snapshot, decode_snapshot
from logdrive.store.limits import StoreLimits

INDEX_NAME: Final = "index"
OLDER_NAME: Final = "index.old"


def load_index(disk: Disk, directory: str, name: str, limits: StoreLimits) -> Snapshot:
    """Return what the index file *name* says.

    Raises FileNotFoundError, and ValueError saying what is wrong with it.
    """
    path = os.path.join(directory, name)
    size = disk.stat(path).size
    file = disk.open(path)
    try:
        return decode_snapshot(file.pread(size, 0), disk, directory, limits)
    finally:
        file.close()


def replace_index(disk: Disk, directory: str, data: bytes, *, keep: bool) -> None:
    """Write the index; the one there becomes the older one where it is worth to *keep*.

    Raises OSError.

    After a crash at any moment each of the two is there as it was before or as it is after, or
    there is only the older one.
    """
    path = os.path.join(directory, INDEX_NAME)
    new = write_beside(disk, path, data)
    faults.reach("store.index.before_rename")
    if keep:
        disk.replace(path, os.path.join(directory, OLDER_NAME))
        faults.reach("store.index.between_renames")
    disk.replace(new, path)
    faults.reach("store.index.after_rename")
    disk.sync_directory(directory)
