"""The index on disk: the newest one, and the one before it.

As long as nothing was reclaimed, the log can be read from its beginning, and the index is a cache.
Once log files were reclaimed, a start needs an index, so there are two. No file is removed that a
start from the older one would read: neither log files, nor the index's own files
(`logdrive.store.index.pages`).
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
    """Return the index in the file *name*.

    Raises FileNotFoundError, and ValueError, which says what is wrong with it.
    """
    path = os.path.join(directory, name)
    size = disk.stat(path).size
    file = disk.open(path)
    try:
        return decode_snapshot(file.pread(size, 0), disk, directory, limits)
    finally:
        file.close()


def replace_index(disk: Disk, directory: str, data: bytes, *, keep: bool) -> None:
    """Write the index; with *keep* the previous one becomes the older one.

    After a crash at any moment, each of the two is as before or as after, or only the older one
    exists. Raises OSError.
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
