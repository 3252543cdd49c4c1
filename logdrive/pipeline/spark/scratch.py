"""Directories for what Spark writes beside its work.

One that a killed process left is removed by the next that makes one.

Each has a lock file that its process holds, which the kernel lets go of with the process: ids of
processes are used again, and containers that share a directory do not see each other's.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "logdrive-spark-"
_LOCK = "lock"


@contextmanager
def open_scratch_directory(parent: str | None = None) -> Iterator[Path]:
    """Yield a directory of this process's own in *parent*, the system's directory for temporary
    files by default.
    """
    parent = parent or tempfile.gettempdir()
    _remove_abandoned(parent)
    directory, lock = _make_locked_directory(parent)
    try:
        yield Path(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _make_locked_directory(parent: str) -> tuple[str, int]:
    """Make a directory and hold its lock.

    One that a sweeper met before it was locked is given up for another.
    """
    while True:
        directory = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        with suppress(FileNotFoundError):
            lock = os.open(
                os.path.join(directory, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.exists(directory):
                return directory, lock
            os.close(lock)


def _remove_abandoned(parent: str) -> None:
    """Remove what processes that are gone have left.

    Others' directories stay, and so do those that are just being made.
    """
    with os.scandir(parent) as entries:
        left = [
            entry.path
            for entry in entries
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)
        ]
    for directory in left:
        with suppress(OSError):  # held, somebody else's, or gone meanwhile
            lock = os.open(os.path.join(directory, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)
