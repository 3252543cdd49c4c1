"""Runs the parts of a micro-batch in Spark's tasks: one item a task, results by collect.

Only RDDs: no Spark SQL, whose start, planning and streaming cost more than a small micro-batch.
"""

import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.pipeline.spark.failures import convert_spark_failures
from logdrive.pipeline.tasks import Item, Result


class SparkTasks:
    """Runs items in the tasks of a `SparkContext`. Implements `Tasks`; threads may share it."""

    def __init__(self, context: Any, log: Path | None = None) -> None:
        """Run tasks in *context*; *log* is the file with Spark's messages, for errors."""
        self._context = context
        self._log = log

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        with convert_spark_failures(self._log):
            return max(1, int(self._context.defaultParallelism))

    @property
    def is_alive(self) -> bool:
        """False if Spark has ended by itself, as when its JVM was killed."""
        try:
            return not self._context._jsc.sc().isStopped()
        except Exception:  # nobody is there to answer
            return False

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what *work* made of each of *items*; see `Tasks`."""
        if not items:
            return []
        with convert_spark_failures(self._log):
            parts = self._context.parallelize(list(items), len(items))
            outcomes = parts.map(partial(_work_on, work)).collect()
        results = []
        for result, error in outcomes:
            if error is not None:
                raise error
            results.append(result)
        return results


def _work_on(
    work: Callable[[Item], Result], item: Item
) -> tuple[Result | None, LogdriveError | None]:
    """Return what *work* made of *item*, or which of our errors it raised, in a task.

    An error of ours is a result: Spark would repeat the task, and pass on only its text.
    """
    try:
        return work(item), None
    except LogdriveError as error:
        return None, _portable(error)


def _portable(error: LogdriveError) -> LogdriveError:
    """Return *error* as it can travel between processes: itself, or one with its text."""
    # some can't be built again from their `args`, which fails in any way
    with suppress(Exception):
        if str(pickle.loads(pickle.dumps(error))) == str(error):  # noqa: S301 - our own bytes
            return error
    kind = StorageError if isinstance(error, StorageError) else TransientError
    return kind(str(error))
