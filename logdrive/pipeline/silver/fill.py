"""Fills silver step by step: to the present end of bronze, or for as long as bronze grows."""

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.bronze.tables import has_tables
from logdrive.pipeline.follower import StepFollower
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

    def add_step(self, counts: StepCounts) -> None:
        """Count one step."""
        self.steps += 1
        self.rows += counts.rows
        self.quarantined += counts.quarantined
        self.duplicates += counts.duplicates
        self.unsure += counts.unsure
        self.bytes += counts.bytes
        self.version = counts.version

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return asdict(self)


StepCallback = Callable[[SilverTotals, StepCounts], None]
"""Called after each step with what was added so far, and in this step."""


def fill_silver(
    tables: Silver,
    stop: threading.Event,
    on_step: StepCallback = lambda _, __: None,
    *,
    follow_seconds: float | None = None,
) -> SilverTotals:
    """Run steps until silver has all that bronze has now, or *stop* is set.

    *follow_seconds*, and what is tried again or raised, are those of `run_steps`.
    """
    totals = SilverTotals()

    def add_step(counts: StepCounts) -> None:
        totals.add_step(counts)
        on_step(totals, counts)

    run_steps(tables, stop, add_step, name="silver", follow_seconds=follow_seconds)
    return totals


class SilverFollower(StepFollower[StepCounts]):
    """Fills silver after the commits of a run that fills bronze, in the thread that commits."""

    def __init__(
        self,
        directory: str,
        config: SilverConfig,
        stop: threading.Event,
        *,
        tasks: Tasks | None = None,
        compression: str = DEFAULT_COMPRESSION,
        on_step: Callable[[StepCounts], object] = lambda _: None,
        wait_for_room: bool = False,
    ) -> None:
        """*on_step* is called after each step; *wait_for_room* is that of `run_steps`."""
        self._silver = Silver(
            directory,
            config,
            tasks or InThreads(),
            clock=SystemClock(),
            disk=SystemDisk(),
            compression=compression,
        )
        super().__init__(
            self._silver,
            stop,
            on_step,
            name="silver",
            has_input=lambda: has_tables(directory),
            wait_for_room=wait_for_room,
        )

    @property
    def waiting_versions(self) -> int:
        """Versions of `bronze.events` that are not in silver yet, as it was seen last."""
        return self._silver.waiting_versions
