"""The log's lines on clients that were refused: a few, however often a client tries again."""

from typing import Final

import structlog

from logdrive.host.clock import Clock

_QUIET_SECONDS: Final = 60.0  # without another line on the same host, and the same code
_HOSTS: Final = 256  # limit on the hosts and codes that are remembered


class RefusalLog:
    """Logs refused logins and requests: the first of a host and a code in each minute.

    *logger* names the face. Where hosts are too many to remember, nothing more is logged until one
    of them is forgotten.
    """

    def __init__(self, clock: Clock, logger: str) -> None:
        self._clock = clock
        self._logger = logger
        # by host and code: when a line was written, and how many refusals followed without one
        self._written: dict[tuple[str, str], tuple[float, int]] = {}

    def note(self, peer: str, request: str, code: str, reason: str) -> None:
        """Log that *request* of *peer*, "host:port", was refused with *code*."""
        key = peer.rpartition(":")[0], code
        now = self._clock.monotonic()
        since, more = self._written.get(key, (None, 0))
        if since is not None and now - since < _QUIET_SECONDS:
            self._written[key] = since, more + 1
            return
        if since is None and not self._has_room(now):
            return
        self._written[key] = now, 0
        structlog.get_logger(self._logger).info(
            "a request was refused",
            peer=peer,
            request=request,
            reason=reason,
            **({"more_before": more} if more else {}),
        )

    def _has_room(self, now: float) -> bool:
        if len(self._written) >= _HOSTS:
            fresh = {
                key: entry
                for key, entry in self._written.items()
                if now - entry[0] < _QUIET_SECONDS
            }
            self._written = fresh
        return len(self._written) < _HOSTS
