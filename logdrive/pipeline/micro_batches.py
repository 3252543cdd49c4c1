"""The driver's loop: plans micro-batches of a stream, and commits what tasks have written of each.

Only ranges go to the tasks, and only headers and names of files come back. The tables know where to
go on: the loop keeps nothing that outlives it. ADR 29 says why it is no streaming query.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from uuid import uuid4

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.model.units import MIB
from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.bronze.writer import Bronze, CommitCounts
from logdrive.pipeline.bronze.written_range import WrittenRange
from logdrive.pipeline.choose_tasks import TaskChooser
from logdrive.pipeline.metrics import DRIVER, SPARK, RunMetrics
from logdrive.pipeline.plan import MicroBatch, Plan
from logdrive.pipeline.range_task import RangeTask, write_range
from logdrive.pipeline.read.offsets import Progress
from logdrive.pipeline.read.planner import BatchRange, Planner
from logdrive.pipeline.tables.failures import failure_text
from logdrive.pipeline.tables.files import remove_labelled
from logdrive.pipeline.tasks import InProcess, InThreads, StoppedError, Tasks, stopping_on
from logdrive.services.reader import ServiceReader

_RANGE_BYTES = 128 * MIB  # raw bytes of one task's range, at most: such files are seldom joined
_QUIET_SECONDS = 10.0  # without anything new, after which looks become rarer
_QUIET_LOOK_SECONDS = 1.0  # between two of these: each is a connection, and a request to a service
_AT_A_TIME = 2  # micro-batches: one is written while the one before it is committed

Bounds = Mapping[int, tuple[int, int]]
"""Per segment number, its start, and its length or the place where reading ends."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A micro-batch whose ranges are being written, or have been."""

    end: Progress  # where the next one begins
    more: bool  # True if more waited behind it when it was planned
    place: str  # `DRIVER` or `SPARK`
    aside: bool  # True if it is written beside the loop, which can begin the next one
    written: "Future[list[WrittenRange]]"


class MicroBatches:
    """Fills *tables* from a stream until it ends, fails, or *stop* is set. Run it once.

    *on_commit* is called after each commit, *on_idle* before each wait for new data.
    """

    def __init__(
        self,
        plan: Plan,
        tables: Bronze,
        chooser: TaskChooser,
        stop: threading.Event,
        on_commit: Callable[[CommitCounts, MicroBatch], None],
        metrics: RunMetrics,
        on_idle: Callable[[], object] = lambda: None,
    ) -> None:
        self._plan = plan
        self._directory = table_paths(plan.directory)[0]
        self._tables = tables
        self._chooser = chooser
        self._stop = stop
        self._on_commit = on_commit
        self._on_idle = on_idle
        self._metrics = metrics
        # seconds that were waited since the last micro-batch
        self._quiet = 0.0

    def run_to_end(
        self, stream: ServiceReader, start: Progress, bounds: Bounds | None = None
    ) -> None:
        """Read *stream* from *start* on, and return at its end, or when told to stop.

        The end is that of *bounds*; without them it is, with `Plan.once`, where the stream ends
        now. A micro-batch that is still being written when *stop* is set is left undone: the next
        run reads it again. Raises `TransientError` where another try may help, `MismatchError` if
        the store went back, and what else a commit raises.
        """
        with stopping_on(self._stop), suppress(StoppedError):
            self._read(stream, start, bounds)

    def _read(self, stream: ServiceReader, start: Progress, bounds: Bounds | None) -> None:
        planner = Planner(stream, _RANGE_BYTES)
        end = planner.segment_bounds() if bounds is None and self._plan.once else bounds
        with ThreadPoolExecutor(_AT_A_TIME, "logdrive-tasks") as threads:
            running, at = None, start
            try:
                while running is not None or not self._stop.is_set():
                    current = running or self._begin(planner, at, end, threads)
                    running = None
                    if current is None:  # nothing waits
                        if end is not None:
                            return
                        self._wait()
                        continue
                    at, failure = current.end, None
                    if current.more and current.aside and not self._stop.is_set():
                        try:
                            running = self._begin(planner, at, end, threads)
                        except LogdriveError as error:  # what has been written is still committed
                            failure = error
                    self._commit(current)
                    if failure is not None:
                        raise failure
                    self._quiet = 0.0
                    if not current.more and end is None:
                        self._wait()
            except BaseException:
                if running is not None:
                    self._discard(running)
                raise

    def _wait(self) -> None:
        """Wait until the next look for new data, unless told to stop."""
        self._on_idle()
        seconds = self._plan.trigger_seconds
        if self._quiet >= _QUIET_SECONDS:
            seconds = max(seconds, _QUIET_LOOK_SECONDS)
        self._quiet += seconds
        self._stop.wait(seconds)

    def _begin(
        self, planner: Planner, at: Progress, end: Bounds | None, threads: ThreadPoolExecutor
    ) -> _Running | None:
        """Plan the micro-batch from *at* on, and let its ranges be written.

        Returns None if nothing waits there, up to *end* if that is given.
        """
        bounds = end or planner.segment_bounds()
        try:
            reached = planner.plan_micro_batch(at, bounds, None, self._chooser.limit)
            planner.range_raw_bytes = _RANGE_BYTES
            ranges = planner.cut_ranges(at, reached)
        except StorageError as error:  # what retention removed, or can't be read: try again
            raise TransientError(str(error)) from error
        self._metrics.note_waiting(
            sum(max(0, length - reached.point(n).next) for n, (_, length) in bounds.items())
        )
        if not ranges:
            return None

        size = sum(one.raw_bytes for one in ranges)
        more = any(reached.point(number).next < length for number, (_, length) in bounds.items())
        self._chooser.note(size, more=more)
        tasks = self._chooser.choose(size)
        if tasks is None:  # told to stop
            return None
        parts = -(-len(ranges) // tasks.slots) * tasks.slots
        even = -(-size // parts)  # a size with which no slot is idle at the end
        # small ranges of many segments stay whole: each is a file
        if len(ranges) < tasks.slots or even >= _RANGE_BYTES // 2:
            planner.range_raw_bytes = even
            ranges = planner.cut_ranges(at, reached)
        written = self._write(tasks, planner.stream, ranges, threads)
        place = DRIVER if isinstance(tasks, InProcess | InThreads) else SPARK
        return _Running(reached, more, place, not isinstance(tasks, InProcess), written)

    def _write(
        self,
        tasks: Tasks,
        stream: ServiceReader,
        ranges: Sequence[BatchRange],
        threads: ThreadPoolExecutor,
    ) -> "Future[list[WrittenRange]]":
        """Let *tasks* write *ranges*: here and now, or in a thread that waits for others."""
        place, compression, label = self._directory, self._plan.compression, str(uuid4())
        items = [RangeTask(stream, one, place, compression, label) for one in ranges]
        if not isinstance(tasks, InProcess):
            return threads.submit(copy_context().run, _write_ranges, tasks, items)
        done: Future[list[WrittenRange]] = Future()
        done.set_result(_write_ranges(tasks, items))
        return done

    def _commit(self, running: _Running) -> None:
        written = running.written.result()
        self._metrics.note_written(running.place, written)
        began = time.monotonic()
        try:
            counts = self._tables.commit_ranges(written)
        except OSError as error:
            raise _failed(error) from error
        seconds = time.monotonic() - began
        self._metrics.note_commit(running.place, counts, seconds)
        slowest = max((one.seconds for one in written), default=0.0)
        done = MicroBatch(counts.events, len(written), running.place, slowest, seconds)
        self._on_commit(counts, done)

    def _discard(self, running: _Running) -> None:
        """Remove what was written of a micro-batch that is not going to be committed."""
        if running.written.exception() is not None:
            return
        for written in running.written.result():
            for file in written.files:
                with suppress(OSError):  # maintenance removes it later
                    os.unlink(os.path.join(self._directory, file.name))


def _write_ranges(tasks: Tasks, items: Sequence[RangeTask]) -> list[WrittenRange]:
    try:
        with _removed_if_it_fails(items[0]):
            return tasks.run(write_range, items)
    except StorageError as error:  # of the stream
        raise TransientError(str(error)) from error
    except (OSError, MemoryError) as error:
        raise _failed(error) from error


@contextmanager
def _removed_if_it_fails(task: RangeTask) -> Iterator[None]:
    """Remove what tasks with the label of *task* have written, unless all goes well inside.

    A task of Spark that goes on nonetheless may leave a file, which maintenance removes.
    """
    try:
        yield
    except BaseException:
        with suppress(OSError):  # likewise
            remove_labelled(task.directory, task.label)
        raise


def _failed(error: OSError | MemoryError) -> TransientError:
    return TransientError(f"the micro-batch failed: {failure_text(error)}")
