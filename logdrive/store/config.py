"""What the operator of a store may set: parsed once at start, never changed.

`config/store.toml` explains it.
"""

import ipaddress
import os.path
from typing import Annotated

import msgspec

from logdrive.store.retention import Policy


class DirectoryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [store] table: the directory, which belongs to one process at a time.

    Without *direct_io* the log goes through the page cache, as a file system may want whose
    O_DIRECT is poor.
    """

    path: str
    direct_io: bool = True

    def __post_init__(self) -> None:
        """Refuse a path that means something else in every working directory."""
        if not os.path.isabs(self.path):
            raise ValueError("path: it must be absolute, as in /var/lib/logdrive/store")


class RetentionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[retention]] table: what is kept of the streams that *stream*, `scope/stream` with * and
    ?, names.

    *readers* are the names of those who must have read what is cut off.
    """

    stream: str
    max_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_age_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    readers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would keep everything, and what names no stream."""
        if self.stream.count("/") != 1:
            raise ValueError('stream: write scope/stream, as in "logs/*"')
        if self.max_bytes is None and self.max_age_seconds is None:
            raise ValueError("give max_bytes, max_age_seconds, or both")

    @property
    def policy(self) -> Policy:
        """What the store applies."""
        age = None if self.max_age_seconds is None else int(self.max_age_seconds * 1000)
        return Policy(self.stream, self.max_bytes, age, self.readers)


def _is_wildcard(host: str) -> bool:
    """Tell whether *host* stands for all addresses of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
