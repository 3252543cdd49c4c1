"""Drops tables that are made from others, so that they can be filled again."""

import contextlib
import os
import shutil

from logdrive.errors import StorageError
from logdrive.host.disk import Disk
from logdrive.pipeline.tables.leftovers import DROPPED
from logdrive.pipeline.tables.lock import lock_tables


def drop_tables(place: str, disk: Disk) -> bool:
    """Remove all tables in the directory *place*; return whether there were any.

    The tables are gone at once, their files a little later: a crash leaves no half of them. Raises
    `StorageError` if another process fills them.
    """
    dropped = place + DROPPED
    try:
        shutil.rmtree(dropped, ignore_errors=True)  # of a rebuild that crashed
        if not os.path.isdir(place):
            return False
        with lock_tables(place, disk):
            disk.replace(place, dropped)
            disk.sync_directory(os.path.dirname(place))
    except OSError as error:
        raise StorageError(f"{place} can't be removed: {error}") from error
    with contextlib.suppress(OSError):  # the next rebuild tries again
        shutil.rmtree(dropped)
    return True
