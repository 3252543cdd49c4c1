"""The loop that fills tables made from other tables, silver and gold, step by step."""

import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import structlog

from logdrive.errors import TransientError
from logdrive.net.retry import Backoff, Exponential
from logdrive.pipeline.tables.failures import FullDiskError, failure_text
from logdrive.pipeline.tasks import StoppedError, stopping_on

Step = TypeVar("Step", covariant=True)

_WAIT = Exponential(1.0, 30.0)  # seconds between two steps that fail
_FAILURES = 10  # limit on steps that fail in a row
_NO_ROOM: Final = (OSError, MemoryError, FullDiskError)
"""What writing files raises, as in a micro-batch of bronze, and what a commit does."""


class StepTables(Protocol[Step]):
    """Tables that are filled in steps, open for writing."""

    def next_step(self) -> Step | None:
        """Process what is new, as much as fits one step; None if nothing is.

        What it raises leaves the step undone.
        """
        ...

    def reload_tables(self) -> None:
        """Read all state from the disk again: called after a step that failed."""
        ...


def run_steps(
    tables: StepTables[Step],
    stop: threading.Event,
    on_step: Callable[[Step], object],
    *,
    name: str,
    follow_seconds: float | None = None,
    wait_for_room: bool = False,
) -> None:
    """Run steps until nothing is new, or *stop* is set, and call *on_step* after each.

    With *follow_seconds* it goes on until *stop*, and looks that often. A step amid which *stop* is
    set is left undone; one that Spark failed is tried again. So is one that the disk or the memory
    had no room for, with *follow_seconds* or *wait_for_room*. The log calls the tables *name*.
    Raises `StorageError`, OSError and MemoryError, and what failed too often.
    """
    backoff = Backoff(_WAIT)
    waits = wait_for_room or follow_seconds is not None
    tried_again = (TransientError, *_NO_ROOM) if waits else (TransientError,)
    while not stop.is_set():
        try:
            with stopping_on(stop):
                if backoff.failures:  # the last step failed
                    tables.reload_tables()
                step = tables.next_step()
        except StoppedError:
            break
        except tried_again as error:
            seconds = backoff.next_wait()
            if backoff.failures >= _FAILURES:
                raise
            structlog.get_logger("logdrive.pipeline").warning(
                f"a step of {name} failed and is tried again",
                error=failure_text(error),
                seconds=seconds,
            )
            stop.wait(seconds)
            continue
        backoff.reset()
        if step is not None:
            on_step(step)
        elif follow_seconds is None:
            break
        else:
            stop.wait(follow_seconds)
