"""The receiver's summary: one log line a minute while something comes in."""

from typing import Any, Final

from logdrive.host.clock import Clock
from receiver.counters import Counters

_SECONDS: Final = 60.0


class ReceiverSummary:
    """Logs each minute what came in.

    *lines* and *bytes* are those of the batches submitted to the sink, *bytes* as stored there.
    """

    def __init__(self, counters: Counters, clock: Clock, log: Any) -> None:
        self._counters = counters
        self._clock = clock
        self._log = log

    async def run(self) -> None:
        """Log each minute, until cancelled, unless nothing came."""
        last = self._totals()  # of a minute ago
        while True:
            await self._clock.sleep(_SECONDS)
            before, last = last, self._totals()
            if last != before:
                new = {name: count - before[name] for name, count in last.items()}
                self._log.info(
                    "in the last minute", connections=self._counters.connections_open, **new
                )

    def _totals(self) -> dict[str, int]:
        counted = self._counters
        return {
            "new_connections": counted.connections,
            "windows": counted.windows_acknowledged,
            "lines": counted.events,
            "bytes": counted.bytes,
            "dead_letters": counted.dead_letters,
            "refusals": sum(counted.refused.values()),
            "sink_failures": counted.sink_failures,
        }
