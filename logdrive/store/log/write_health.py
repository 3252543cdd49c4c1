"""What the log says of a disk that takes nothing: once when it begins, once when it is over,
however often it is tried meanwhile.
"""

import asyncio

import structlog

_QUIET_SECONDS = 10.0
"""Between two complaints: a disk with room for small writes only fails and recovers by the
second.
"""


class WriteHealth:
    """The state of one store's writes, as last told."""

    def __init__(self, directory: str) -> None:
        self._log = structlog.get_logger("logdrive.store").bind(store=directory)
        self._told = False
        self._told_at = float("-inf")
        self._failures = 0

    def on_write_failed(self, reason: str) -> None:
        """Note a write that failed and was taken back."""
        self._failures += 1
        now = asyncio.get_running_loop().time()
        if not self._told and now - self._told_at >= _QUIET_SECONDS:
            self._told, self._told_at = True, now
            remedy = "nothing of it is acknowledged; once the disk has room, it goes on by itself"
            self._log.warning("the store takes nothing", reason=reason, remedy=remedy)

    def on_write_succeeded(self) -> None:
        """Note a write that went well."""
        if self._told:
            self._told = False
            self._log.warning("the store takes writes again", failed=self._failures)
            self._failures = 0
