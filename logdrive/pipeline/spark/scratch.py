"""Temporary directories for Spark's own files, and for the checkpoints of queries.

A directory that a killed process left behind is removed by the next process that makes one beside
it. Each has a lock file, which the kernel unlocks when its process ends. (Process ids would not do:
they are reused, and containers that share a directory don't see each other's.)
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
    """Yield a new directory in *parent*, which is removed after the context.

    *parent* is the system's directory for temporary files by default. Raises OSError.
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
    """Make a directory and lock it; return its path and the descriptor of the lock.

    Another process may remove the directory before it is locked: then make another one.
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
            os.close(lock)  # removed by another process before it was locked


def _remove_abandoned(parent: str) -> None:
    """Remove the directories in *parent* whose processes have ended.

    Directories of other users stay, and so do those that are not locked yet: they lack the file.
    """
    with os.scandir(parent) as entries:
        left = [
            entry.path
            for entry in entries
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)
        ]
    for directory in left:
        with suppress(OSError):  # locked, another user's, or removed meanwhile
            lock = os.open(os.path.join(directory, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)
