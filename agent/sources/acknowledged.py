"""Totals of what was acknowledged, of one source or of several: for status and summaries."""

import msgspec

from logdrive.model.numbers import position_of
from logdrive.records.runs import Run


class Acknowledged(msgspec.Struct, gc=False):  # in no cycle
    """What was acknowledged since the agent started."""

    events: int = 0
    """Events in the runs."""

    bytes: int = 0
    """Bytes of the files, gaps not counted."""

    gap_bytes: int = 0
    """Bytes of gaps."""

    at_ms: int = 0
    """When the last acknowledgement came (ms since the epoch); the checkpoint keeps it."""

    def add(self, other: "Acknowledged") -> None:
        """Add the totals of another source."""
        self.events += other.events
        self.bytes += other.bytes
        self.gap_bytes += other.gap_bytes
        self.at_ms = max(self.at_ms, other.at_ms)

    def add_run(self, run: Run, now_ms: int) -> None:
        """Add a run that was acknowledged at *now_ms*."""
        size = run.position - position_of(run.previous)
        self.events += run.events
        if run.mark is None:
            self.bytes += size
        else:
            self.gap_bytes += size
        self.at_ms = now_ms
