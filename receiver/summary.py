"""What the receiver says of itself: one line a minute while something comes in."""

from typing import Any, Final

from logdrive.host.clock import Clock
from receiver.counters import Counters

_SECONDS: Final = 60.0


class ReceiverSummary:
    """Tells what came in a minute.

    *lines* and *bytes* are of the batches handed to the sink, *bytes* as they are stored there.
    """

    def __init__(self, counters: Counters, clock: Clock, log: Any) -> None:
        self._counters, self._clock, self._log = counters, clock, log

    async def run(self) -> None:
        """Tell each minute, for ever, unless nothing came."""
        last = self._standing()
        while True:
            await self._clock.sleep(_SECONDS)
            before, last = last, self._standing()
            if last != before:
                new = {name: count - before[name] for name, count in last.items()}
                self._log.info(
                    "in the last minute", connections=self._counters.connections_open, **new
                )

    def _standing(self) -> dict[str, int]:
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
