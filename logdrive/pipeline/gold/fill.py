"""Fills gold step by step: to the present end of silver, or for as long as silver grows."""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from logdrive.host.disk import SystemDisk
from logdrive.pipeline.follower import StepFollower
from logdrive.pipeline.gold.backlog import silver_tables
from logdrive.pipeline.gold.writer import Gold, GoldStep
from logdrive.pipeline.steps import run_steps
from logdrive.pipeline.tables.files import DEFAULT_COMPRESSION

LOOK_SECONDS: Final = 10.0
"""Time between two looks at silver. A step adds a file and a version to each gold table, and a row
for each service and minute that it has met: figures by minute need no more of them.
"""


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
    *,
    follow_seconds: float | None = None,
) -> GoldTotals:
    """Run steps until gold has counted all that silver has now, or *stop* is set.

    *follow_seconds*, and what is tried again or raised, are those of `run_steps`.
    """
    totals = GoldTotals()

    def add_step(step: GoldStep) -> None:
        totals.add_step(step)
        on_step(totals)

    run_steps(tables, stop, add_step, name="gold", follow_seconds=follow_seconds)
    return totals


class GoldFollower(StepFollower[GoldStep]):
    """Counts silver in gold beside a run that fills silver, in the same thread."""

    def __init__(
        self,
        directory: str,
        stop: threading.Event,
        *,
        compression: str = DEFAULT_COMPRESSION,
        on_step: Callable[[GoldStep], object] = lambda _: None,
        on_open: Callable[[int], object] = lambda _: None,
        on_read: Callable[[int], object] = lambda _: None,
        wait_for_room: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """*on_open* is called once, before the first step, with how many rows wait; *on_read* is
        that of `Gold`, and *on_step* is called after each step. *now* tells the time in seconds.
        *wait_for_room* is that of `run_steps`.
        """
        self._now = now
        # when gold last had all that silver had
        self._last = float("-inf")
        self.totals = GoldTotals()
        """What was counted so far."""

        def add_step(step: GoldStep) -> None:
            self.totals.add_step(step)
            on_step(step)

        tables = Gold(directory, disk=SystemDisk(), compression=compression, on_read=on_read)
        super().__init__(
            tables,
            stop,
            add_step,
            name="gold",
            has_input=lambda: bool(silver_tables(directory)),
            on_open=lambda: on_open(tables.count_waiting_rows()),
            wait_for_room=wait_for_room,
        )

    def catch_up_if_due(self) -> None:
        """Do what `catch_up` does, unless all was counted less than `LOOK_SECONDS` ago."""
        if self._now() - self._last >= LOOK_SECONDS:
            self.catch_up()

    def catch_up(self) -> None:
        """Count all rows that silver has, unless the run is asked to stop."""
        super().catch_up()
        if self.is_open:
            self._last = self._now()
