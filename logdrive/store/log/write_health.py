"""Logs failing writes: once when they begin, and once when they are over."""

import asyncio

import structlog

_QUIET_SECONDS = 10.0
"""Least seconds between two warnings.

A disk that has room only for small writes fails and recovers every second.
"""


class WriteHealth:
    """Whether one store's writes fail, as logged last."""

    def __init__(self, directory: str) -> None:
        self._log = structlog.get_logger("logdrive.store").bind(store=directory)
        # True once the current failure was logged
        self._logged = False
        # when a failure was logged last, on the loop's clock, in seconds
        self._logged_at = float("-inf")
        # failed writes since writes last succeeded after a logged failure
        self._failures = 0

    def on_write_failed(self, reason: str) -> None:
        """Note a write that failed and was undone."""
        self._failures += 1
        now = asyncio.get_running_loop().time()
        if not self._logged and now - self._logged_at >= _QUIET_SECONDS:
            self._logged, self._logged_at = True, now
            remedy = "nothing is acknowledged until the disk has room; then writing goes on"
            self._log.warning("writes to the store fail", reason=reason, remedy=remedy)

    def on_write_succeeded(self) -> None:
        """Note a write that succeeded."""
        if self._logged:
            self._logged = False
            self._log.warning("writes to the store succeed again", failed=self._failures)
            self._failures = 0
