"""What `logdrive pipeline` shows on standard error while it works: Spark takes its time to start,
and reading takes long.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import structlog
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

if TYPE_CHECKING:
    from logdrive.pipeline.run import Plan, RunResult, Tell

_STARTING = "starting Spark, which may take half a minute"


@contextmanager
def starting_spark() -> Iterator[None]:
    """Say while the context lasts that Spark is starting: a spinner on a terminal, else one
    line.
    """
    if sys.stderr.isatty():
        with Console(stderr=True).status(_STARTING):
            yield
    else:
        print(_STARTING, file=sys.stderr, flush=True)
        yield


@contextmanager
def shown(
    plan: "Plan", *, quiet: bool
) -> Iterator[tuple[Callable[[], AbstractContextManager[None]], "Tell"]]:
    """Yield what shows Spark's start and what shows a commit: one bar on a terminal when the end is
    known, else lines.
    """
    if not (plan.once and sys.stderr.isatty()) or quiet:
        log = structlog.get_logger("pipeline")
        yield (
            starting_spark,
            lambda so_far: log.info(
                "committed so far", events=so_far.events, batches=so_far.batches, bytes=so_far.bytes
            ),
        )
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("looking at the stream", total=None)

        @contextmanager
        def starting() -> Iterator[None]:
            progress.update(task, description=_STARTING)
            yield
            progress.update(task, description="reading")

        def tell(so_far: "RunResult") -> None:
            progress.update(task, total=so_far.there, completed=so_far.bytes)

        yield starting, tell
