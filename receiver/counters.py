"""What the receiver has done since it started: plain numbers, raised per batch, read by whoever
reports them.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Totals of one receiver process.

    *refused* counts E frames by code; the other names say what they count.
    """

    connections: int = 0
    connections_open: int = 0
    protocol_errors: int = 0
    sources_registered: int = 0
    sources_fenced: int = 0
    windows_acknowledged: int = 0
    batches: int = 0
    records: int = 0
    events: int = 0
    bytes: int = 0
    runs_refused: int = 0
    positions_corrected: int = 0
    dead_letters: int = 0
    keepalives: int = 0
    sink_failures: int = 0
    refused: dict[int, int] = field(default_factory=dict)

    def count_batch(self, records: int, events: int, size: int) -> None:
        """Count one batch on its way to the sink."""
        self.batches += 1
        self.records += records
        self.events += events
        self.bytes += size

    def count_refusal(self, code: int) -> None:
        """Count one E frame."""
        self.refused[code] = self.refused.get(code, 0) + 1
