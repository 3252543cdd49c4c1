"""Messages that were lost before they came to the spool: counted, and told in the log."""

from typing import Any, Final

from logdrive.host.clock import Clock

_WARN_SECONDS: Final = 60.0
"""Shortest time between two warnings of one cause: the later one has the new total."""
FULL: Final = "messages lost: the spool is full"
NOT_READ: Final = "messages lost: they came faster than the agent reads"
NOT_WRITTEN: Final = "messages lost: they came faster than the disk writes"
_REMEDIES: Final = {
    FULL: "let the receiver take more, or raise spool_bytes",
    NOT_WRITTEN: "look at the disk of state_dir, or use TCP",
    NOT_READ: "let the kernel keep more (sysctl net.core.rmem_max), or use TCP",
}


class LostMessages:
    """What one input lost since the start, by cause."""

    def __init__(self, name: str, clock: Clock, log: Any) -> None:
        self._name = name
        self._clock = clock
        self._log = log
        self._totals = dict.fromkeys(_REMEDIES, (0, 0))  # messages and bytes
        self._told = dict.fromkeys(self._totals, 0)  # messages, in the last warning
        self._told_at = dict.fromkeys(self._totals, float("-inf"))  # monotonic, s

    def count(self, cause: str, messages: int, size: int) -> None:
        """Count *messages* of *size* bytes together, at least."""
        before, bytes_before = self._totals[cause]
        self._totals[cause] = before + messages, bytes_before + size

    def tell(self) -> None:
        """Warn of what was not told yet, unless a warning was just written; call it often."""
        now = self._clock.monotonic()
        for cause, (messages, size) in self._totals.items():
            if messages > self._told[cause] and now - self._told_at[cause] >= _WARN_SECONDS:
                self._told_at[cause] = now
                self._tell(cause, messages, size)

    def tell_rest(self) -> None:
        """Tell what was not told yet: the input ends."""
        for cause, (messages, size) in self._totals.items():
            if messages > self._told[cause]:
                self._tell(f"{cause}, until the end", messages, size, of=cause)

    def _tell(self, event: str, messages: int, size: int, of: str = "") -> None:
        self._told[of or event] = messages
        self._log.warning(
            event,
            input=self._name,
            lost_messages=messages,
            lost_bytes_at_least=size,
            remedy=_REMEDIES[of or event],
        )
