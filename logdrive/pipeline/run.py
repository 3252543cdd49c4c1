"""`logdrive pipeline run`: fills the bronze tables from a stream, with one query after another.

A query that fails is started again, from where the tables end (`resume.py`), until one ends well or
the run is stopped.
"""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import structlog

from logdrive.errors import LogdriveError, StorageError, TransientError, file_error_text
from logdrive.host.clock import Clock, SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.bronze.writer import Bronze, CommitCounts, MismatchError
from logdrive.pipeline.plan import Plan, ProgressCallback, RunResult
from logdrive.pipeline.query import TableQuery
from logdrive.pipeline.read.connect import open_stream, relocate_stream
from logdrive.pipeline.read.consumer_position import ConsumerPosition
from logdrive.pipeline.read.offsets import Progress
from logdrive.pipeline.read.old_letters import note_old_letters
from logdrive.pipeline.resume import find_start, require_segments
from logdrive.pipeline.spark.failures import WorkerStartError
from logdrive.pipeline.spark.session import open_spark_session
from logdrive.pipeline.spark.source import LogdriveSource
from logdrive.services.reader import ServiceReader

_LONGEST_PAUSE = 30.0  # seconds between two queries
_FAILURES = 10  # limit on queries that fail in a row without a commit between them


def run_pipeline(
    plan: Plan,
    stop: threading.Event,
    on_commit: ProgressCallback = lambda _: None,
    clock: Clock | None = None,
    spark: Any = None,
    starting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> RunResult:
    """Read the stream into the tables until *stop* is set; with `once`, until the present end.

    A running micro-batch is committed before the run ends. *on_commit* is called after every
    commit that added something. *spark* is a session to use; without it, one is started inside the
    context *starting*. Raises `ConfigError`, `StorageError`, and what ended the last query.
    """
    with ExitStack() as held:
        stream = held.enter_context(open_stream(plan.uri, plan.tls, plan.login))
        # Check this before the tables are made: an audit of empty tables would find no fault.
        require_segments(stream, plan.uri)
        _make_directory(plan.directory)
        tables = held.enter_context(
            Bronze(
                plan.directory,
                clock=clock or SystemClock(),
                disk=SystemDisk(),
                compression=plan.compression,
            )
        )

        job = _Run(plan, tables, stream, stop, on_commit)
        note_old_letters(stream)
        start = job.find_start()
        held.callback(job.publish_position)  # again, in case it failed after the last commit
        if plan.once and not job.result.there:
            return job.result  # nothing to read: don't start Spark for it

        if spark is None:
            job.log = Path(plan.directory, "spark.log")
            with starting():
                own = open_spark_session(
                    "logdrive pipeline", master=plan.master, memory=plan.memory, log=job.log
                )
                spark = held.enter_context(own)
        spark.dataSource.register(LogdriveSource)
        return job.until_done(spark, start)


class _Run:
    """The state that outlives a query."""

    def __init__(
        self,
        plan: Plan,
        tables: Bronze,
        stream: ServiceReader,
        stop: threading.Event,
        on_commit: ProgressCallback,
    ) -> None:
        self.plan = plan
        self.tables = tables
        self.stream = stream
        self.stop = stop
        self.on_commit = on_commit
        self.reader = ConsumerPosition(plan.reader)
        self.result = RunResult()
        self.failures = 0  # of queries since the last commit
        self.log: Path | None = None  # of a Spark session of this run's own

    def until_done(self, spark: Any, start: Progress) -> RunResult:
        """Run queries, the first from *start*, until one ends well or *stop* is set.

        Raises what failed if another query would not help, or if too many failed in a row.
        """
        log = structlog.get_logger("logdrive.pipeline")
        begin: Progress | None = start
        while True:
            try:
                self._run_query(spark, begin or self.find_start())
                return self.result
            except (TransientError, MismatchError) as error:
                self.failures += 1
                if self.failures >= _FAILURES or not self._is_tried_again(error):
                    raise
                pause = min(0.5 * 2**self.failures, _LONGEST_PAUSE)
                log.warning(
                    "the query failed and is started again", error=str(error), seconds=pause
                )
                if self.stop.wait(pause):
                    return self.result
                self.tables.reload_tables()
                self.stream, begin = relocate_stream(self.plan.uri, self.stream), None

    def _is_tried_again(self, error: LogdriveError) -> bool:
        """Return whether another query may help: with `once`, only if this one read nothing."""
        return not self.plan.once or isinstance(error, MismatchError | WorkerStartError)

    def find_start(self) -> Progress:
        """Return where the next query begins, and publish the position there."""
        start, unread = find_start(self.stream, self.tables, self.plan.uri)
        if not self.failures:  # the first query
            self.result.there = unread
        self.publish_position()
        return start

    def publish_position(self) -> None:
        """Let retention cut what is durable in the tables."""
        self.reader.publish_ends(self.stream, self.tables.needed_offsets())

    def _run_query(self, spark: Any, start: Progress) -> None:
        query = TableQuery(self.plan, self.tables, self.stop, self._count_commit, self.log)
        query.run_to_end(spark, self.stream, start)

    def _count_commit(self, counts: CommitCounts) -> None:
        self.failures = 0
        if counts.batches:  # Spark also runs a first micro-batch of nothing
            self.publish_position()
            self.result.add_commit(counts)
            self.on_commit(self.result)


def _make_directory(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        text = file_error_text(error)
        raise StorageError(f"the tables' directory can't be made: {text}") from error
