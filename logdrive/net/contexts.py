"""TLS contexts, reloaded when their files change: a renewed certificate is used from the next
connection on.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import structlog

from logdrive.errors import ConfigError
from logdrive.host.disk import Disk, SystemDisk
from logdrive.host.file_stamp import FileStamp, read_stamp
from logdrive.host.transport import ClientTls, ServerTls

_log = structlog.get_logger("logdrive.net")
# OpenSSL reads the files of a context from the machine's file system, past every other disk
_DISK: Final = SystemDisk()
T = TypeVar("T", ClientTls, ServerTls)
C = TypeVar("C")


class Contexts(Generic[T, C]):
    """Cache of TLS contexts by their settings; *load* makes one, again after a file has changed.

    A context is OpenSSL's, or what another library has for it. Where a changed file can't be
    loaded, say half-way through a renewal, the former context stays in use, and a warning is
    logged.
    """

    def __init__(self, load: Callable[[T], C], disk: Disk = _DISK) -> None:
        self._load: Callable[[T], C] = load  # makes a context from its files
        self._disk = disk
        # the stamps of CA, certificate and key when the context was loaded, and the context
        self._cached: dict[T, tuple[list[FileStamp | None], C]] = {}

    def get(self, tls: T) -> C:
        """Return the context for *tls*. Raises `ConfigError` where none was ever loaded."""
        paths = (tls.ca, tls.cert, tls.key)
        stamps = [None if path is None else read_stamp(self._disk, path) for path in paths]
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
