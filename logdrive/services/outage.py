"""What is logged while a streaming service is away."""

import structlog


class Outage:
    """Logs when the service stops answering and when it answers again, each once.

    All connections to the service share one. *reason* is the last failure, None if all is well.
    """

    def __init__(self, service: str) -> None:
        self._log = structlog.get_logger("logdrive.sinks").bind(service=service)
        self.reason: str | None = None

    def report_failure(self, reason: str) -> None:
        """Record a failure that only the service can end; log it if it is the first one."""
        if self.reason is None:
            self._log.warning(
                "the streaming service does not take appends: retrying", reason=reason
            )
        self.reason = reason

    def report_success(self) -> None:
        """Record that the service did what it was asked to."""
        if self.reason is not None:
            self.reason = None
            self._log.info("the streaming service answers again")
