"""What was counted of the sources of one input, living and ended."""

import msgspec

from agent.sources.acknowledged import Acknowledged
from agent.sources.source import Source


class InputTotals(msgspec.Struct):
    """Totals of sources of one input."""

    acknowledged: Acknowledged = msgspec.field(default_factory=Acknowledged)
    """What was acknowledged."""
    parsed: int = 0
    """Lines that their format read."""
    failed: int = 0
    """Lines that it could not read."""
    truncated: int = 0
    """Events of which a part was left out, as they were over the limit on their bytes."""

    def add_source(self, source: Source) -> None:
        """Add what was counted of *source*."""
        self.acknowledged.add(source.acknowledged)
        if source.events is None:
            return
        self.truncated += source.events.truncated
        if source.events.format is not None:
            counts = source.events.format.counts
            self.parsed += counts.parsed
            self.failed += counts.failed
