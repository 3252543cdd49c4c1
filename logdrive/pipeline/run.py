"""`logdrive pipeline run`: fills the bronze tables from a stream, micro-batch after micro-batch.

A loop that fails is started again, from where the tables end (`resume.py`), until one ends well or
the run is stopped.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import structlog

from logdrive.errors import ConfigError, Mistake, StorageError, TransientError, file_error_text
from logdrive.host.clock import Clock, SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.net.retry import Backoff, Exponential, retry_blocking, sleep_using_event
from logdrive.pipeline.bronze.writer import Bronze, CommitCounts, MismatchError
from logdrive.pipeline.choose_tasks import TaskChooser
from logdrive.pipeline.metrics import RunMetrics, serve_metrics
from logdrive.pipeline.micro_batches import Bounds, MicroBatches
from logdrive.pipeline.plan import MicroBatch, Plan, ProgressCallback, RunResult
from logdrive.pipeline.read.connect import open_stream, relocate_stream
from logdrive.pipeline.read.consumer_position import ConsumerPosition
from logdrive.pipeline.read.offsets import Progress
from logdrive.pipeline.read.old_letters import note_old_letters
from logdrive.pipeline.resume import begin_tables, find_start, require_segments
from logdrive.pipeline.spark.background import BackgroundSpark
from logdrive.pipeline.spark.failures import SparkStartError
from logdrive.pipeline.spark.session import is_submitted, open_spark_context, require_spark
from logdrive.pipeline.tasks import InThreads, Tasks
from logdrive.services.reader import ServiceReader

_NAME = "logdrive pipeline"  # in Spark's cluster
_WAIT = Exponential(1.0, 30.0)  # seconds between two loops
_FAILURES = 10  # limit on loops that fail in a row without a commit between them


def run_pipeline(
    plan: Plan,
    stop: threading.Event,
    on_commit: ProgressCallback = lambda _: None,
    clock: Clock | None = None,
    tasks: Tasks | None = None,
    metrics: RunMetrics | None = None,
    starting: Callable[[], AbstractContextManager[None]] = nullcontext,
    on_idle: Callable[[], object] = lambda: None,
) -> RunResult:
    """Read the stream into the tables until *stop* is set; with `once`, until the present end.

    A micro-batch that is being written then is left undone. *on_commit* is called after every
    commit that added something, *on_idle* before each wait for new data. *tasks* is what runs
    larger micro-batches; without it they are threads of this process, or Spark where *plan* wants
    it: that is started in the background once it is needed, inside the context *starting*. What the
    run does is counted in *metrics*, which `Plan.metrics` shows to Prometheus.
    Raises `ConfigError`, `StorageError`, and what ended the last loop.
    """
    if "://" in plan.directory:  # a directory of that name would be made here
        remedy = "name a directory, one that all machines of a cluster mount"
        raise ConfigError("pipeline", [Mistake("to", plan.directory, remedy)])
    with ExitStack() as held:
        stream = held.enter_context(
            open_stream(plan.uri, plan.tls, plan.login, plan.token, local_reads=plan.local_reads)
        )
        # Check this before the tables are made: an audit of empty tables would find no fault.
        require_segments(stream, plan.shown_uri)
        _make_directory(plan.directory)
        tables = held.enter_context(
            Bronze(
                plan.directory,
                clock=clock or SystemClock(),
                disk=SystemDisk(),
                compression=plan.compression,
                forms=plan.forms,
            )
        )
        metrics = metrics or RunMetrics()
        held.enter_context(serve_metrics(metrics, plan.metrics))
        runs = tasks or held.enter_context(tasks_for(plan, _NAME, "spark.log", starting, metrics))

        # Notes are appended first, so that this run reads them, too.
        job = FillJob(plan, tables, stream, stop, on_commit, runs, metrics)
        job.on_idle = on_idle
        note_old_letters(stream)
        now_ms = (clock or SystemClock()).now_ms()
        begin_tables(stream, tables, plan.start, plan.shown_uri, now_ms)
        start = job.find_start()
        held.callback(job.publish_position)  # again, in case it failed after the last commit
        if plan.once and not job.result.there:
            return job.result
        return job.until_done(start)


@contextmanager
def tasks_for(
    plan: Plan,
    name: str,
    log_name: str,
    starting: Callable[[], AbstractContextManager[None]],
    metrics: RunMetrics,
) -> Iterator[BackgroundSpark | Tasks]:
    """Yield what runs larger micro-batches: Spark if *plan* names a master, or `spark-submit` has
    started this process; else threads (ADR 47).

    Spark is started when it is needed. The cluster knows it as *name*; what its JVM says is in the
    file *log_name* beside the tables. Raises `PackagesMissingError`.
    """
    if plan.master is None and not is_submitted():
        yield InThreads()
        return
    require_spark()  # now, and not once much waits
    # spark-submit has opened the file of its JVM's messages
    log = None if is_submitted() else Path(plan.directory, log_name)
    spark = BackgroundSpark(
        lambda cancel: open_spark_context(
            name, master=plan.master, memory=plan.memory, log=log, cancel=cancel
        ),
        log,
        starting,
        metrics.note_failed_attempts,
    )
    try:
        yield spark
    finally:
        spark.close()


class FillJob:
    """The state of a run that outlives a loop."""

    bounds: Bounds | None = None
    """Where reading ends; None: at the stream's end."""

    def __init__(
        self,
        plan: Plan,
        tables: Bronze,
        stream: ServiceReader,
        stop: threading.Event,
        on_commit: ProgressCallback,
        tasks: BackgroundSpark | Tasks,
        metrics: RunMetrics,
    ) -> None:
        self.plan = plan
        self.tables = tables
        self.stream = stream
        self.stop = stop
        self.on_commit = on_commit
        self.tasks = tasks
        self.metrics = metrics
        self.on_idle: Callable[[], object] = lambda: None
        self.reader = ConsumerPosition(plan.reader)
        self.result = RunResult()
        self.backoff = Backoff(_WAIT)  # counts loops that failed since the last commit

    def until_done(self, start: Progress) -> RunResult:
        """Run loops, the first from *start*, until one ends well or *stop* is set.

        Raises what failed if another loop would not help, or if too many failed in a row.
        """
        until_one_ends_well = retry_blocking(
            (TransientError, MismatchError),
            sleep=sleep_using_event(self.stop),
            wait=self.backoff,
            unless=self._is_final,
            give_up=lambda _: self.backoff.failures >= _FAILURES,
            on_failure=self._note_restart,
        )
        until_one_ends_well(self._run_next_loop, start)
        return self.result

    def _run_next_loop(self, start: Progress) -> None:
        """Run one loop to its end: the first from *start*, a later one from the tables' end."""
        if self.backoff.failures:  # a later loop
            if self.stop.is_set():
                return
            # what failed may have been a commit, and a receiver that was restarted has a new port
            self.tables.reload_tables()
            self.stream = relocate_stream(self.plan.uri, self.stream)
            start = self.find_start()
            if isinstance(self.tasks, BackgroundSpark):
                self.tasks.stop_dead()
        chooser = TaskChooser(
            self.tasks, self.plan.driver_bytes, self.plan.max_bytes_per_batch, self.stop
        )
        loop = MicroBatches(
            self.plan,
            self.tables,
            chooser,
            self.stop,
            self._count_commit,
            self.metrics,
            self.on_idle,
        )
        loop.run_to_end(self.stream, start, self.bounds)

    def _note_restart(self, error: BaseException, seconds: float) -> None:
        self.metrics.note_restart()
        structlog.get_logger("logdrive.pipeline").warning(
            "reading failed and is started again", error=str(error), seconds=seconds
        )

    def _is_final(self, error: BaseException) -> bool:
        """Return whether no other loop helps: with `once`, unless this one read nothing."""
        return self.plan.once and not isinstance(error, MismatchError | SparkStartError)

    def find_start(self) -> Progress:
        """Return where the next loop begins, and publish the position there."""
        start = find_start(
            self.stream,
            self.tables,
            self.plan.shown_uri,
            replaced_store=self.plan.replaced_store,
        )
        self.result.removed += start.removed
        self.metrics.note_removed(start.removed)
        if not self.backoff.failures:  # the first loop
            self.result.there = start.unread
        self.publish_position()
        return start.progress

    def publish_position(self) -> None:
        """Let retention cut what is durable in the tables."""
        self.reader.publish_ends(self.stream, self.tables.needed_offsets())

    def _count_commit(self, counts: CommitCounts, last: MicroBatch) -> None:
        self.backoff.reset()  # micro-batches are committed: failures in a row begin anew
        if counts.batches:
            self.publish_position()
            self.result.add_commit(counts, last)
            self.on_commit(self.result)


def _make_directory(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        text = file_error_text(error)
        raise StorageError(f"the tables' directory can't be made: {text}") from error
