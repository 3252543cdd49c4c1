"""Progress of `logdrive pipeline` on standard error: Spark's start, and bytes read."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import structlog
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

if TYPE_CHECKING:
    from logdrive.pipeline.plan import Plan, ProgressCallback, RunResult

_STARTING = "starting Spark, which may take half a minute"


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
        log = structlog.get_logger("pipeline")
        yield (
            show_spark_start,
            lambda so_far: log.info(
                "committed so far", events=so_far.events, batches=so_far.batches, bytes=so_far.bytes
            ),
        )
        return
    # offsets in S2 and in Iggy count records
    amounts = (
        (MofNCompleteColumn(), TextColumn("records"))
        if plan.uri.partition(":")[0].lower() in ("s2", "iggy")
        else (DownloadColumn(), TransferSpeedColumn())
    )
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        *amounts,
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("connecting to the stream", total=None)

        @contextmanager
        def starting() -> Iterator[None]:
            progress.update(task, description=_STARTING)
            yield
            progress.update(task, description="reading")

        def tell(so_far: "RunResult") -> None:
            progress.update(task, total=so_far.there, completed=so_far.offsets)

        yield starting, tell
