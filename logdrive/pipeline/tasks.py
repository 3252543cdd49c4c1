"""How the pipeline runs the parts of a micro-batch: in Spark's tasks, or in this process.

The driver hands a function and items to a `Tasks`, and gets a result for each. Items, results and
the function travel between processes, so all of them must pickle; bytes of a segment and rows of a
table never do.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


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
        errors, and `TransientError` for failures of Spark.
        """
        ...


class InProcess:
    """Runs the items one after the other in this process."""

    slots = 1

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what *work* made of each of *items*."""
        return [work(item) for item in items]


class InThreads:
    """Runs several items at a time in this process: for work that Arrow does, outside of Python."""

    def __init__(self, slots: int) -> None:
        self._slots = slots

    @property
    def slots(self) -> int:
        """How many threads there are."""
        return self._slots

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what *work* made of each of *items*; a failure waits for the other items."""
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(self._slots, "tasks") as threads:
            return list(threads.map(work, items))
