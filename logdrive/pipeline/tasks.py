"""How the pipeline runs the parts of a micro-batch: in Spark's tasks, or in this process.

The driver hands a function and items to a `Tasks`, and gets a result for each. Items, results and
the function travel between processes, so all of them must pickle; bytes of a segment and rows of a
table never do.

A run that is asked to stop does not wait for a step that takes long: work looks now and then
whether it is to go on (`check_stop`), and leaves the step undone, which the next run does.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Protocol, TypeVar

from logdrive.errors import LogdriveError

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_THREADS = 8
"""Threads of one process, at most: more wait for its interpreter, and each has a range in memory.
"""

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class StoppedError(LogdriveError):
    """The run is to stop. What was under way is left undone, and nothing of it is committed."""


@contextmanager
def stopping_on(stop: threading.Event) -> Iterator[None]:
    """Let `check_stop` raise inside the context once *stop* is set.

    That holds for the items that a `Tasks` runs there, too; Spark's tasks are cancelled. Threads
    that are started otherwise need a copy of the context.
    """
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def current_stop() -> threading.Event | None:
    """Return what stops the work of this thread; None if nothing does, as in a task of Spark."""
    return _stop.get()


def check_stop() -> None:
    """Raise `StoppedError` if the run is to stop: called where a step can be left undone."""
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise StoppedError("the run was stopped")


class Tasks(Protocol):
    """Runs one function on several items."""

    @property
    def slots(self) -> int:
        """How many items run at a time: into as many parts a micro-batch is worth cutting."""
        ...

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what *work* made of each of *items*, in their order.

        An item may be worked on more than once, and in two places at a time, as Spark does after a
        failure: only what is returned counts. Raises what *work* raised, if it is one of our
        errors, `StoppedError` if the run is to stop, and `TransientError` for failures of Spark.
        """
        ...


class InProcess:
    """Runs the items one after the other in this process."""

    slots = 1

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what *work* made of each of *items*."""
        return [work(item) for item in items]


class InThreads:
    """Runs several items at a time in this process: for work that Arrow does, outside of Python.

    Threads may share it: never more than *slots* items are worked on, whoever brought them. They
    are always the same threads, since glibc keeps freed memory for each.
    """

    def __init__(self, slots: int | None = None) -> None:
        """Work on *slots* items at a time; without them on one for each core, up to a limit."""
        slots = slots or min(len(os.sched_getaffinity(0)), _MOST_THREADS)
        self._slots = slots
        self._threads = ThreadPoolExecutor(slots, "tasks")

    @property
    def slots(self) -> int:
        """How many threads there are."""
        return self._slots

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what *work* made of each of *items*; a failure waits for the other items."""
        # two threads can't share a context
        running = [self._threads.submit(copy_context().run, work, item) for item in items]
        wait(running)
        return [one.result() for one in running]
