"""What is logged while a streaming service is away."""

from typing import Final

import structlog

_REASONS: Final = 8  # of one outage that are logged


class Outage:
    """Logs when the service stops answering and when it answers again, each once.

    A service that is away for one reason may stay away for another, which only an operator can end:
    after a restart it refuses the password. So of one outage each reason is logged, once, up to 8.

    All connections to the service share one. *reason* is the last failure, None if all is well.
    """

    def __init__(self, service: str) -> None:
        self._log = structlog.get_logger("logdrive.sinks").bind(service=service)
        self._told: set[str] = set()  # reasons of this outage that were logged
        self.reason: str | None = None

    def report_failure(self, reason: str) -> None:
        """Record a failure that only the service can end; log it if it is the first of its kind."""
        if reason not in self._told and len(self._told) < _REASONS:
            self._told.add(reason)
            self._log.warning(
                "the streaming service does not take appends: retrying", reason=reason
            )
        self.reason = reason

    def report_success(self) -> None:
        """Record that the service did what it was asked to."""
        if self.reason is not None:
            self.reason = None
            self._told.clear()
            self._log.info("the streaming service answers again")
