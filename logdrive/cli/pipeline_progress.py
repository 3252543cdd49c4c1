"""Progress of `logdrive pipeline` on standard error: Spark's start, and how much is done."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from logdrive.pipeline.plan import Plan, ProgressCallback, RunResult
    from logdrive.pipeline.silver.parse import FormatReason

_STARTING = "starting Spark, which may take half a minute"
_IN_BACKGROUND = "starting Spark, as much waits to be read"
_READING = "reading"
_LINES_AT_ONCE = 20  # about micro-batches that come fast one after the other
_LINES_A_SECOND = 1.0  # and in the long run
_QUARANTINE_SECONDS = 60.0  # between two lines about what was quarantined
_REASONS = 5  # in such a line
_BYTES = "bytes"
_MANY_ROWS = 1_000_000  # which gold takes seconds to count
_AMID_SECONDS = 10.0  # between two lines about a step that is under way


@contextmanager
def show_spark_start() -> Iterator[None]:
    """Show inside the context that Spark is starting: a spinner on a terminal, else one line."""
    if sys.stderr.isatty():
        with Console(stderr=True).status(_STARTING):
            yield
    else:
        print(_STARTING, file=sys.stderr, flush=True)
        yield


@contextmanager
def show_files_read() -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for the number of files read, and of all: a bar if there is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bars:
        bar = bars.add_task("reading files", total=None)
        yield lambda done, whole: bars.update(bar, completed=done, total=whole)


@contextmanager
def show_progress(
    plan: "Plan", *, quiet: bool
) -> Iterator[tuple[Callable[[], AbstractContextManager[None]], "ProgressCallback"]]:
    """Yield two callbacks for `run`: *starting*, around Spark's start, and *tell*, after a commit.

    They draw one bar if standard error is a terminal and the end is known (`once`), else print
    lines. *quiet* never draws a bar.
    """
    if not (plan.once and sys.stderr.isatty()) or quiet:
        yield _print_start, CommitLines(time.monotonic).tell
        return
    # offsets in S2 and in Iggy count records
    unit = "records" if plan.uri.partition(":")[0].lower() in ("s2", "iggy") else _BYTES
    progress = _bars_of(unit)
    task = progress.add_task(_READING, total=None)
    with _shown_below_log(progress):

        @contextmanager
        def starting() -> Iterator[None]:
            progress.update(task, description=_IN_BACKGROUND)
            yield
            progress.update(task, description=_READING)

        def tell(so_far: "RunResult") -> None:
            progress.update(task, total=so_far.there, completed=so_far.offsets)

        yield starting, tell


class AmountCallback(Protocol):
    """Takes how much of how much is done; None if that is not known."""

    def __call__(
        self, done: int, total: int | None, figures: Mapping[str, Any] | None = None, /
    ) -> None:
        """With *figures*, those of a line of the log, at the end of a step; else amid one."""
        ...


@contextmanager
def show_amount(name: str, unit: str, *, quiet: bool) -> Iterator[AmountCallback]:
    """Yield a callback for how much of the work *name* is done, in *unit*, as `bytes` or `rows`.

    It draws one bar if standard error is a terminal, else prints lines. *quiet* never draws a bar.
    """
    if quiet or not sys.stderr.isatty():
        yield AmountLines(name, unit, time.monotonic).tell
        return
    bars = _bars_of(unit)
    bar = bars.add_task(name, total=None)
    with ExitStack() as shown:

        def tell(done: int, total: int | None, _: Mapping[str, Any] | None = None) -> None:
            # what is added meanwhile is done, too
            bars.update(bar, completed=done, total=max(total or 0, done))
            if not bars.live.is_started:  # without anything to do there is no bar
                shown.enter_context(_shown_below_log(bars))

        yield tell


def _bars_of(unit: str) -> Progress:
    """Return bars of amounts in *unit*, with rates, and the times that passed and are left."""
    amounts: tuple[ProgressColumn, ...] = (
        (DownloadColumn(), TransferSpeedColumn())
        if unit == _BYTES
        else (MofNCompleteColumn(), TextColumn(unit), _RateColumn())
    )
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        *amounts,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
    )


@contextmanager
def _shown_below_log(bars: Progress) -> Iterator[None]:
    """Show *bars* inside the context, and lines of the log above them."""
    factory = structlog.get_config()["logger_factory"]
    with bars:
        # on a terminal that is the bars' own now
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.stderr))
        try:
            yield
        finally:
            structlog.configure(logger_factory=factory)


class _RateColumn(ProgressColumn):
    """How many of what is counted are done a second."""

    def render(self, task: Task) -> Text:
        rate = task.finished_speed or task.speed
        return Text("?" if rate is None else f"{rate:,.0f}/s", style="progress.data.speed")


class AmountLines:
    """A line of the log for each step of a work; amid a step, one every ten seconds."""

    def __init__(self, name: str, unit: str, now: Callable[[], float]) -> None:
        """Tell of the work *name*, in *unit*. Read the time from *now*, in seconds."""
        self._name = name
        self._unit = unit
        self._now = now
        self._last = now()
        self._log = structlog.get_logger("pipeline")

    def tell(self, done: int, total: int | None, figures: Mapping[str, Any] | None = None) -> None:
        """Tell of a step with its *figures*; without them of what is under way, if its *total* is
        known.
        """
        now = self._now()
        if figures is None and (total is None or now - self._last < _AMID_SECONDS):
            return
        self._last = now
        amounts = {} if total is None else {"done": done, "total": max(total, done)}
        unit = {} if total is None else {"unit": self._unit}
        self._log.info(f"{self._name} so far", **(figures or {}), **amounts, **unit)


class FirstCountLines:
    """Lines of the log about the first count of a gold that has much to count: the run reads
    nothing else until it is done.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Read the time from *now*, in seconds."""
        self._now = now
        self._read = 0
        self._total = 0
        self._lines: AmountLines | None = None

    def begin(self, waiting: int) -> None:
        """Tell that *waiting* rows are counted now, if that takes long."""
        if waiting <= _MANY_ROWS:
            return
        self._total = waiting
        self._lines = AmountLines("gold", "rows", self._now)
        structlog.get_logger("pipeline").info(
            "gold counts what silver has before more is read", rows=waiting
        )

    def add_read(self, rows: int) -> None:
        """Tell that *rows* more were counted: every ten seconds, until the first count is done."""
        if self._lines is None:
            return
        self._read += rows
        self._lines.tell(self._read, self._total)
        if self._read >= self._total:
            self._lines = None


@contextmanager
def _print_start() -> Iterator[None]:
    structlog.get_logger("pipeline").info(_IN_BACKGROUND)
    yield


class CommitLines:
    """A line of the log for each micro-batch; of many, one a second.

    Each has the totals so far. So a pipeline that reads its own log is not kept busy by it.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Read the time from *now*, in seconds."""
        self._now = now
        self._left = float(_LINES_AT_ONCE)
        self._last = now()
        self._log = structlog.get_logger("pipeline")

    def tell(self, so_far: "RunResult") -> None:
        """Tell of a micro-batch that was committed."""
        now = self._now()
        refilled = self._left + (now - self._last) * _LINES_A_SECOND
        self._left, self._last = min(float(_LINES_AT_ONCE), refilled), now
        if self._left < 1:
            return
        self._left -= 1
        self._log.info(
            "committed so far",
            events=so_far.events,
            batches=so_far.batches,
            bytes=so_far.bytes,
            **(so_far.last.as_json() if so_far.last is not None else {}),
        )


class QuarantineLines:
    """A line of the log for what silver has quarantined, with formats and reasons; one a minute."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Read the time from *now*, in seconds."""
        self._now = now
        self._last = float("-inf")
        self._waiting = Counter[tuple[str | None, str]]()
        self._log = structlog.get_logger("pipeline")

    def tell(self, reasons: "Mapping[FormatReason, int]") -> None:
        """Tell of the rows that a step has quarantined, or keep them for the next line."""
        self._waiting.update(reasons)
        if self._now() - self._last >= _QUARANTINE_SECONDS:
            self.finish()

    def finish(self) -> None:
        """Tell of what is left."""
        if not self._waiting:
            return
        most = self._waiting.most_common(_REASONS)
        parts = [f"{name or 'bronze'}: {reason} ({rows:,})" for (name, reason), rows in most]
        if len(self._waiting) > len(most):
            parts.append(f"{len(self._waiting) - len(most):,} other reasons")
        self._log.warning(
            "rows went to the table quarantine",
            rows=self._waiting.total(),
            reasons="; ".join(parts),
        )
        self._waiting.clear()
        self._last = self._now()
