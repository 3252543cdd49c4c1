"""Fills gold step by step: to the present end of silver, or for as long as silver grows."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Final, Self

from logdrive.host.disk import SystemDisk
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
    on_read: Callable[[int], None] = lambda _: None,
    *,
    follow_seconds: float | None = None,
) -> GoldTotals:
    """Run steps until gold has counted all that silver has now, or *stop* is set.

    *follow_seconds*, and what is tried again or raised, are those of `run_steps`. *on_read* gets
    how many rows of silver were read since it was called last.
    """
    totals = GoldTotals()

    def add_step(step: GoldStep) -> None:
        totals.add_step(step)
        on_step(totals)

    watched = _WatchedGold(tables, on_read)
    run_steps(watched, stop, add_step, name="gold", follow_seconds=follow_seconds)
    return totals


@dataclass(frozen=True, slots=True)
class _WatchedGold:
    """Gold tables whose steps tell what they read."""

    tables: Gold
    on_read: Callable[[int], None]

    def next_step(self) -> GoldStep | None:
        return self.tables.next_step(self.on_read)

    def reload_tables(self) -> None:
        self.tables.reload_tables()


class GoldFollower:
    """Counts silver in gold beside a run that fills silver, in the same thread."""

    def __init__(
        self,
        directory: str,
        stop: threading.Event,
        *,
        compression: str = DEFAULT_COMPRESSION,
        on_step: Callable[[GoldStep], object] = lambda _: None,
        wait_for_room: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """*on_step* is called after each step; *now* tells the time in seconds. *wait_for_room* is
        that of `run_steps`.
        """
        self._directory = directory
        self._stop = stop
        self._on_step = on_step
        self._wait_for_room = wait_for_room
        self._now = now
        self._gold = Gold(directory, disk=SystemDisk(), compression=compression)
        self._held = ExitStack()
        self._is_open = False
        # when gold last had all that silver had
        self._last = float("-inf")
        self.totals = GoldTotals()
        """What was counted so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.__exit__(kind, error, trace)

    def catch_up_if_due(self) -> None:
        """Do what `catch_up` does, unless that was less than `LOOK_SECONDS` ago."""
        if self._now() - self._last >= LOOK_SECONDS:
            self.catch_up()

    def catch_up(self) -> None:
        """Count all rows that silver has, unless the run is asked to stop.

        Does nothing where there is no silver yet. Raises as `run_steps` does.
        """
        if self._stop.is_set():
            return
        if not self._is_open:
            if not silver_tables(self._directory):
                return
            self._held.enter_context(self._gold)
            self._is_open = True
        run_steps(
            self._gold,
            self._stop,
            self._add_step,
            name="gold",
            wait_for_room=self._wait_for_room,
        )
        self._last = self._now()

    def _add_step(self, step: GoldStep) -> None:
        self.totals.add_step(step)
        self._on_step(step)
