"""TLS contexts, reloaded when their files change: a renewed certificate is used from the next
connection on.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import structlog
from OpenSSL import SSL

from logdrive.errors import ConfigError
from logdrive.host.disk import SystemDisk
from logdrive.host.file_stamp import FileStamp, read_stamp
from logdrive.host.transport import ClientTls, ServerTls

_log = structlog.get_logger("logdrive.net")
# OpenSSL reads the files of a context from the machine's file system, past every other disk
_DISK: Final = SystemDisk()
T = TypeVar("T", ClientTls, ServerTls)


class Contexts(Generic[T]):
    """Cache of TLS contexts by their settings; *load* makes one, again after a file has changed.

    Where a changed file can't be loaded, say half-way through a renewal, the former context stays
    in use, and a warning is logged.
    """

    def __init__(self, load: Callable[[T], SSL.Context]) -> None:
        self._load: Callable[[T], SSL.Context] = load  # makes a context from its files
        # the stamps of CA, certificate and key when the context was loaded, and the context
        self._cached: dict[T, tuple[list[FileStamp | None], SSL.Context]] = {}

    def get(self, tls: T) -> SSL.Context:
        """Return the context for *tls*. Raises `ConfigError` where none was ever loaded."""
        stamps = [_stamp(path) for path in (tls.ca, tls.cert, tls.key)]
        cached = self._cached.get(tls)
        if cached is not None and cached[0] == stamps:
            return cached[1]

        try:
            context = self._load(tls)
        except ConfigError as error:
            if cached is None:
                raise
            _log.warning(
                "certificates can't be loaded, the former ones are used", reason=str(error)
            )
            context = cached[1]
        # also after a failure: the same files are not tried again for every connection
        self._cached[tls] = (stamps, context)
        return context


def _stamp(path: str | None) -> FileStamp | None:
    return read_stamp(_DISK, path) if path is not None else None
