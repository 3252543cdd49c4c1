"""Directories that interrupted commands leave beside the tables, and that still hold rows.

    DIR/bronze.new                  new bronze tables that a rebuild has not finished
    DIR/bronze.old                  old ones, which a finished rebuild did not get to delete
    DIR/silver.dropped, gold.dropped    tables that were dropped, likewise
    DIR/silver/NAME                 without a log: files of a step that was killed before its commit

No reader of the tables finds these rows. An erasure has to delete them, too.
"""

import os
import shutil
from typing import Final

from logdrive.errors import StorageError, file_error_text
from logdrive.pipeline.tables.open_table import is_table

BRONZE_NEW: Final = "bronze.new"
BRONZE_OLD: Final = "bronze.old"
DROPPED: Final = ".dropped"
"""Behind the name of a directory whose tables were dropped."""
_SILVER: Final = "silver"
_SOURCES: Final = "sources"  # the first table that a fill of silver makes


def is_leftover(room: str) -> bool:
    """Return whether the directory *room* of tables holds none that are in use."""
    return room in (BRONZE_NEW, BRONZE_OLD) or room.endswith(DROPPED)


def find_leftovers(directory: str) -> list[str]:
    """Return what there is of these in *directory*, relative to it, in their order."""
    found = [
        name
        for name in os.listdir(directory)
        if is_leftover(name) and os.path.isdir(os.path.join(directory, name))
    ]
    place = os.path.join(directory, _SILVER)
    if is_table(os.path.join(place, _SOURCES)):
        found += [f"{_SILVER}/{name}" for name in os.listdir(place) if _has_no_log(place, name)]
    return sorted(found)


def remove_leftovers(directory: str) -> list[str]:
    """Delete what `find_leftovers` returns, and return it.

    The caller holds the locks of rebuilds and of silver. Raises `StorageError`.
    """
    found = find_leftovers(directory)
    for name in found:
        try:
            shutil.rmtree(os.path.join(directory, name))
        except OSError as error:
            raise StorageError(
                f"{os.path.join(directory, name)} can't be removed: {file_error_text(error)}"
            ) from error
    return found


def _has_no_log(place: str, name: str) -> bool:
    path = os.path.join(place, name)
    return os.path.isdir(path) and not is_table(path)
