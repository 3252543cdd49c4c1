"""The judge of agents that speak the plain dialect: all bytes arrive at least once, no others."""

from collections.abc import Iterable

import orjson

from tests.simulation.hosts.programs import AgentHost
from tests.simulation.judging.arrivals import covered
from tests.support.record_bytes import bytes_of


class NotThereError(AssertionError):
    """A byte that must have arrived is not stored."""


class InventedError(AssertionError):
    """An event was stored that was never written."""


def judge_plain(host: AgentHost, events: Iterable[bytes]) -> None:
    """Compare the full records of *host* among *events* with its files.

    Raises `NotThereError`, `InventedError`.
    """
    pieces = _pieces(host, events)
    lives = host.applications.lives
    for start, data in pieces:
        if not any(life.data[start : start + len(data)] == data for life in lives):
            raise InventedError(f"{data[:60]!r} at {start}, never written so on {host.name}")
    if host.plan.start == "end":
        return  # where it began is not in the records
    for life in host.applications.on_disk:
        own = [
            (start, start + len(data))
            for start, data in pieces
            if life.data[start : start + len(data)] == data
        ]
        if covered(own) < len(life.data):
            raise NotThereError(f"{life} is on the disk, and {covered(own)} bytes of it arrived")


def _pieces(host: AgentHost, events: Iterable[bytes]) -> list[tuple[int, bytes]]:
    """Return the records of *host*, without doubles: position in the file, and bytes."""
    pieces: dict[tuple[int, bytes], None] = {}
    for event in events:
        record = orjson.loads(event)
        if record.get("host", {}).get("name") == host.applications.host and "log" in record:
            pieces[record["log"]["offset"], bytes_of(record)[0]] = None
    return list(pieces)
