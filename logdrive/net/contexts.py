"""TLS contexts, loaded again when their files change: a renewed certificate is used from the next
connection on.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import structlog
from OpenSSL import SSL

from logdrive.errors import ConfigError
from logdrive.host.disk import SystemDisk
from logdrive.host.stamp import FileStamp, stamp_of
from logdrive.net.stream import ClientTls, ServerTls

_log = structlog.get_logger("logdrive.net")
T = TypeVar("T", ClientTls, ServerTls)


class Contexts(Generic[T]):
    """Contexts by their settings, made by *load*, and made again when a file has changed.

    Files that can't be loaded, as in the middle of a renewal, are logged as a warning, and the
    former context stays in use.
    """

    def __init__(self, load: Callable[[T], SSL.Context]) -> None:
        self._load: Callable[[T], SSL.Context] = load
        self._disk = SystemDisk()  # OpenSSL reads the files itself, so no other one will do
        # with the stamps of the files that each was loaded from
        self._kept: dict[T, tuple[list[FileStamp], SSL.Context]] = {}

    def get(self, tls: T) -> SSL.Context:
        """Return the context for *tls*. Raises `ConfigError` if there never was a good one."""
        paths = (tls.ca, tls.cert, tls.key)
        state = [stamp_of(self._disk, path) if path is not None else None for path in paths]
        kept = self._kept.get(tls)
        if kept is not None and kept[0] == state:
            return kept[1]
        try:
            context = self._load(tls)
        except ConfigError as error:
            if kept is None:
                raise
            _log.warning(
                "certificates can't be loaded, the former ones are used", reason=str(error)
            )
            context = kept[1]
        self._kept[tls] = (state, context)
        return context
