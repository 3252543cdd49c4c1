"""Runs the parts of a micro-batch in Spark's tasks: one item a task, results by collect.

Only RDDs: no Spark SQL, whose start, planning and streaming cost more than a small micro-batch.
"""

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.pipeline.spark.failures import SparkEndedError, convert_spark_failures
from logdrive.pipeline.tasks import Item, Result, check_stop, current_stop

_POLL_SECONDS = 0.1  # between looks at whether the run is to stop


class SparkTasks:
    """Runs items in the tasks of a `SparkContext`. Implements `Tasks`; threads may share it."""

    def __init__(
        self,
        context: Any,
        log: Path | None = None,
        on_failed_attempts: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Run tasks in *context*; *log* is the file with Spark's messages, for errors.

        *on_failed_attempts* is told how many attempts of tasks have failed, after each run that
        had some.
        """
        self._context = context
        self._log = log
        self._on_failed_attempts = on_failed_attempts

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        with self._failures():
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
        try:
            with self._failures():
                outcomes = self._collect(partial(_work_on, work), items)
        except TransientError:
            check_stop()  # then it was cancelled
            raise
        results = []
        for result, error in outcomes:
            if error is not None:
                raise error
            results.append(result)
        return results

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Convert exceptions of Spark in the context to ours."""
        try:
            with convert_spark_failures(self._log):
                yield
        except TransientError as failure:
            if self.is_alive:
                raise
            more = f"; see {self._log}" if self._log is not None else ""
            raise SparkEndedError(f"Spark has ended by itself{more}") from failure

    def _collect(self, call: Callable[[Item], Any], items: Sequence[Item]) -> list[Any]:
        group = str(uuid4())
        try:
            self._context.setJobGroup(group, "logdrive")  # of this thread
            with self._cancelled_on_stop(group):
                return list(self._context.parallelize(list(items), len(items)).map(call).collect())
        finally:
            with suppress(Exception):  # Spark may have ended
                self._count_failed_attempts(group)

    @contextmanager
    def _cancelled_on_stop(self, group: str) -> Iterator[None]:
        """Cancel the jobs of *group* if the run is to stop inside the context."""
        stop = current_stop()
        if stop is None:
            yield
            return
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_POLL_SECONDS):
                if stop.is_set():  # again and again: the job may not have begun
                    with suppress(Exception):  # Spark may have ended
                        self._context.cancelJobGroup(group)

        watching = threading.Thread(target=watch, name="logdrive-cancel")
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()

    def _count_failed_attempts(self, group: str) -> None:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        if failed := sum(stage.numFailedTasks for stage in stages if stage):
            self._on_failed_attempts(failed)


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
