"""Counters of connections: of all connectors, those that a reload has replaced included."""

from dataclasses import dataclass


@dataclass(slots=True)
class ConnectionCounts:
    """Counts since the start."""

    made: int = 0
    """Connections made."""

    failed: int = 0
    """Attempts and connections that failed."""
