"""Errors of delta-rs as ours."""

import os
import re

from logdrive.errors import StorageError

_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # in the messages of delta-rs


def storage_error(path: str, error: Exception) -> StorageError:
    """Return *error* in one line: delta-rs prints its causes as a colored tree."""
    causes = [line.strip(" ↳") for line in _COLOR.sub("", str(error)).splitlines()]
    return StorageError(
        f"{path} can't be read or written: {': '.join(cause for cause in causes if cause)}"
    )


def is_listed(directory: str) -> bool:
    """Return False if *directory* may not be listed: Delta then takes it for missing."""
    try:
        os.listdir(directory)
    except PermissionError:
        return False
    except OSError:
        return True
    return True
