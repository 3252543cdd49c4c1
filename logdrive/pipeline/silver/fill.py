"""Fills silver step by step: to the present end of bronze, or for as long as bronze grows."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.bronze.tables import has_tables
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.writer import Silver, StepCounts
from logdrive.pipeline.steps import run_steps
from logdrive.pipeline.tables.files import DEFAULT_COMPRESSION
from logdrive.pipeline.tasks import InThreads, Tasks


@dataclass(slots=True)
class SilverTotals:
    """What was added to silver so far, in rows."""

    steps: int = 0
    rows: int = 0
    quarantined: int = 0
    duplicates: int = 0
    unsure: int = 0  # lines of foreign peers that may be there twice
    bytes: int = 0  # of bronze's files
    version: int = -1  # of `bronze.events`, up to which silver is
    last: StepCounts | None = None  # the last step

    def add_step(self, counts: StepCounts) -> None:
        """Count one step."""
        self.steps += 1
        self.rows += counts.rows
        self.quarantined += counts.quarantined
        self.duplicates += counts.duplicates
        self.unsure += counts.unsure
        self.bytes += counts.bytes
        self.version = counts.version
        self.last = counts

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        values = asdict(self)
        del values["last"]
        return values


StepCallback = Callable[[SilverTotals], None]
"""Called after each step."""


def fill_silver(
    tables: Silver,
    stop: threading.Event,
    on_step: StepCallback = lambda _: None,
    *,
    follow_seconds: float | None = None,
    wait_for_room: bool = False,
) -> SilverTotals:
    """Run steps until silver has all that bronze has now, or *stop* is set.

    *follow_seconds*, *wait_for_room*, and what is tried again or raised, are those of `run_steps`.
    """
    totals = SilverTotals()

    def add_step(counts: StepCounts) -> None:
        totals.add_step(counts)
        on_step(totals)

    run_steps(
        tables,
        stop,
        add_step,
        name="silver",
        follow_seconds=follow_seconds,
        wait_for_room=wait_for_room,
    )
    return totals


class SilverFollower:
    """Fills silver after the commits of a run that fills bronze, in the thread that commits."""

    def __init__(
        self,
        directory: str,
        config: SilverConfig,
        stop: threading.Event,
        *,
        tasks: Tasks | None = None,
        compression: str = DEFAULT_COMPRESSION,
        on_step: StepCallback = lambda _: None,
        wait_for_room: bool = False,
    ) -> None:
        self._directory = directory
        self._wait_for_room = wait_for_room
        self._on_step = on_step
        self._stop = stop
        self._silver = Silver(
            directory,
            config,
            tasks or InThreads(),
            clock=SystemClock(),
            disk=SystemDisk(),
            compression=compression,
        )
        self._held = ExitStack()
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()

    @property
    def waiting(self) -> int:
        """Versions of `bronze.events` that are not in silver yet, as it was seen last."""
        return self._silver.waiting

    def catch_up(self) -> SilverTotals:
        """Make all rows that bronze has rows of silver, unless the run is asked to stop.

        Does nothing where there is no bronze yet. Raises as `fill_silver` does.
        """
        if not self._is_open:
            if not has_tables(self._directory):
                return SilverTotals()
            self._held.enter_context(self._silver)
            self._is_open = True
        return fill_silver(
            self._silver, self._stop, self._on_step, wait_for_room=self._wait_for_room
        )
