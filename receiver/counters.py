"""Counters of one receiver: plain numbers, raised once a batch."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Totals of one receiver process since its start."""

    connections: int = 0
    connections_open: int = 0  # now
    protocol_errors: int = 0
    sources_registered: int = 0
    sources_fenced: int = 0  # taken over by a later registration
    windows_acknowledged: int = 0
    batches: int = 0
    records: int = 0
    events: int = 0
    bytes: int = 0  # of the records, as they are stored
    packs: int = 0  # of the records, those that are packs
    packs_unpacked: int = 0  # packs whose content was stored in their place
    packs_damaged: int = 0  # packs that could not be unpacked, and were stored as they came
    runs_refused: int = 0
    positions_corrected: int = 0  # P frames sent because a run was refused
    dead_letters: int = 0
    keepalives: int = 0
    sink_failures: int = 0
    refused: dict[int, int] = field(default_factory=dict)  # E frames by code

    def count_batch(self, records: int, events: int, size: int) -> None:
        """Count one batch that was submitted to the sink."""
        self.batches += 1
        self.records += records
        self.events += events
        self.bytes += size

    def count_refusal(self, code: int) -> None:
        """Count one E frame."""
        self.refused[code] = self.refused.get(code, 0) + 1
