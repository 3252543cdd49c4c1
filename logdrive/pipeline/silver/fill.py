"""Fills silver step by step: to the present end of bronze, or for as long as bronze grows."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Final, Self

import structlog

from logdrive.errors import TransientError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.net.retry import Backoff, Exponential
from logdrive.pipeline.bronze.tables import has_tables
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.writer import Silver, StepCounts
from logdrive.pipeline.tables.failures import FullDiskError, failure_text
from logdrive.pipeline.tables.files import DEFAULT_COMPRESSION
from logdrive.pipeline.tasks import InThreads, StoppedError, Tasks, stopping_on

_WAIT = Exponential(1.0, 30.0)  # seconds between two steps that fail
_FAILURES = 10  # limit on steps that fail in a row
_NO_ROOM: Final = (OSError, MemoryError, FullDiskError)
"""What writing files raises, as in a micro-batch of bronze, and what a commit does."""


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

    With *follow_seconds* it goes on until *stop*, and looks that often. A step amid which *stop* is
    set is left undone; one that Spark failed is tried again. So is one that the disk or the memory
    had no room for, with *follow_seconds* or *wait_for_room*. Raises `StorageError`, OSError and
    MemoryError, and what failed too often.
    """
    totals, backoff = SilverTotals(), Backoff(_WAIT)
    waits = wait_for_room or follow_seconds is not None
    tried_again = (TransientError, *_NO_ROOM) if waits else (TransientError,)
    while not stop.is_set():
        try:
            with stopping_on(stop):
                if backoff.failures:  # the last step failed
                    tables.reload_tables()
                counts = tables.next_step()
        except StoppedError:
            break
        except tried_again as error:
            seconds = backoff.next_wait()
            if backoff.failures >= _FAILURES:
                raise
            structlog.get_logger("logdrive.pipeline").warning(
                "a step of silver failed and is tried again",
                error=failure_text(error),
                seconds=seconds,
            )
            stop.wait(seconds)
            continue
        backoff.reset()
        if counts is not None:
            totals.add_step(counts)
            on_step(totals)
        elif follow_seconds is None:
            break
        else:
            stop.wait(follow_seconds)
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
