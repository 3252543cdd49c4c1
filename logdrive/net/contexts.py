"""TLS contexts, loaded again when their files change: a renewed certificate is used from the next
connection on.
"""

import os
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog
from OpenSSL import SSL

from logdrive.errors import ConfigError
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
        # with the state of the files that each was loaded from
        self._kept: dict[T, tuple[list[tuple[int, int, int] | None], SSL.Context]] = {}

    def get(self, tls: T) -> SSL.Context:
        """Return the context for *tls*. Raises `ConfigError` if there never was a good one."""
        state = [_state(path) for path in (tls.ca, tls.cert, tls.key)]
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


def _state(path: str | None) -> tuple[int, int, int] | None:
    """Return inode, size and time of the file at *path*, which change when it is replaced."""
    if path is None:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
