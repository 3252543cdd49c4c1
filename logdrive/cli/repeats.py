"""Holds back log lines that say the same again: one a cause and minute.

A receiver that is away, or a full disk, brings the same warning with each attempt. The first is
written at once. Those of the minute after it are counted, and the next one says how many.
"""

import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final

_SECONDS: Final = 60.0
_LEVELS: Final = ("warning", "error")
_PEERS: Final = ("peer", "latest")
"""Keys whose texts are a peer's address, host:port."""
_MOST_CAUSES: Final = 1000
"""Limit on the causes that are known at a time; the oldest is forgotten."""


class RepeatFilter:
    """A structlog processor. A cause is a line's event and all its texts, without its numbers.

    A peer's port is one of them: one that tries again and again comes from another each time.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        # When a line of each cause was written (s), and how many were held back since.
        self._written: dict[tuple[str, ...], tuple[float, int]] = {}

    def __call__(
        self, _logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Return *event*, with `repeated` where some were held back. Raises `DropEvent`."""
        from structlog import DropEvent  # not sooner: see `import_structlog`

        if method not in _LEVELS:
            return event
        texts = (
            f"{key}={value.rpartition(':')[0] if key in _PEERS else value}"
            for key, value in event.items()
            if isinstance(value, str)
        )
        cause, now = tuple(sorted(texts)), self._monotonic()
        written_at, held = self._written.get(cause, (float("-inf"), 0))
        if now - written_at < _SECONDS:
            self._written[cause] = written_at, held + 1
            raise DropEvent
        if cause not in self._written and len(self._written) >= _MOST_CAUSES:
            del self._written[next(iter(self._written))]
        self._written[cause] = now, 0
        if held:
            event["repeated"] = held
        return event
