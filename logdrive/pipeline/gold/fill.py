"""Fills gold step by step: to the present end of silver, or for as long as silver grows."""

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from logdrive.pipeline.gold.writer import Gold, GoldStep
from logdrive.pipeline.tasks import StoppedError, stopping_on


@dataclass(slots=True)
class GoldTotals:
    """What was counted so far."""

    steps: int = 0
    lines: int = 0  # rows of silver
    rows: int = 0  # of gold

    def add_step(self, step: GoldStep) -> None:
        """Count one step."""
        self.steps += 1
        self.lines += step.lines
        self.rows += step.rows

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return asdict(self)


def fill_gold(
    tables: Gold,
    stop: threading.Event,
    on_step: Callable[[GoldTotals], None] = lambda _: None,
    on_read: Callable[[int], None] = lambda _: None,
    *,
    follow_seconds: float | None = None,
) -> GoldTotals:
    """Run steps until gold has counted all that silver has now, or *stop* is set.

    With *follow_seconds* it goes on until *stop*, and looks that often. A step amid which *stop* is
    set is left undone. *on_read* gets how many rows of silver were read since it was called last.
    Raises `StorageError`.
    """
    totals = GoldTotals()
    while not stop.is_set():
        try:
            with stopping_on(stop):
                step = tables.next_step(on_read)
        except StoppedError:
            break
        if step is not None:
            totals.add_step(step)
            on_step(totals)
        elif follow_seconds is None:
            break
        else:
            stop.wait(follow_seconds)
    return totals
