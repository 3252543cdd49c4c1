"""The store's configuration tables, parsed once at start.

`config/store.toml` explains every key.
"""

import os.path
from typing import Annotated

import msgspec

from logdrive.config.bounds import Count, Positive, checked
from logdrive.store.retention import Policy


def _check_path(path: str) -> None:
    """Refuse a relative path, which depends on the working directory."""
    if not os.path.isabs(path):
        raise ValueError("path: it must be absolute, as in /var/lib/logdrive/store")


def _check_streams(pattern: str) -> None:
    if pattern.count("/") != 1:
        raise ValueError('stream: write scope/stream, as in "logs/*"')


class DirectoryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [store] table: the directory, which one process uses at a time.

    Without *direct_io* the log goes through the page cache, for file systems with a slow O_DIRECT.
    """

    path: Annotated[str, checked(_check_path)]
    direct_io: bool = True

    def __post_init__(self) -> None:
        """Refuse a relative path."""
        _check_path(self.path)


class RetentionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[retention]] table: how much is kept of the streams that match *stream*.

    *stream* is `scope/stream` with * and ?. *readers* are names of readers who must have read what
    is cut off.
    """

    stream: Annotated[str, checked(_check_streams)]
    max_bytes: Count | None = None
    max_age_seconds: Positive | None = None
    readers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a table that would keep everything, or names no stream."""
        _check_streams(self.stream)
        if self.max_bytes is None and self.max_age_seconds is None:
            raise ValueError("give max_bytes, max_age_seconds, or both")

    @property
    def policy(self) -> Policy:
        """The policy that the store applies."""
        age = None if self.max_age_seconds is None else int(self.max_age_seconds * 1000)
        return Policy(self.stream, self.max_bytes, age, self.readers)
