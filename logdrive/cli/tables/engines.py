"""Options that choose what reads the rows for an audit, and the audit with it."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from logdrive.cli.pipeline_progress import show_files_read, show_spark_start

if TYPE_CHECKING:
    from logdrive.pipeline.audit.audit import Verdict
    from logdrive.pipeline.audit.engine import EngineFactory

Command = TypeVar("Command", bound=Callable[..., Any])
EngineName = Literal["arrow", "spark"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What reads the rows: this process, or Spark at *master* (None: in this process, too)."""

    name: EngineName = "arrow"
    master: str | None = None


def engine_options(command: Command) -> Command:
    """Add `--engine` and `--master` to *command*, which gets them as *engine*."""

    @click.option(
        "--engine",
        "name",
        type=click.Choice(["arrow", "spark"]),
        help="What reads the rows: this process, or Spark, for tables that a cluster holds."
        "  [default: arrow]",
    )
    @click.option(
        "--master",
        metavar="URL",
        help="Spark cluster, such as spark://host:7077, for --engine spark; without it Spark "
        "runs in this process.",
    )
    @functools.wraps(command)
    def with_engine(*args: Any, name: EngineName | None, master: str | None, **more: Any) -> Any:
        if master is not None and name != "spark":
            raise click.UsageError("give --master with --engine spark only")
        return command(*args, engine=EngineOptions(name or "arrow", master), **more)

    return with_engine  # type: ignore[return-value]  # click makes a command of it


def audit_tables(directory: str, options: EngineOptions) -> "Verdict":
    """Audit the tables in *directory*, with progress on standard error. Raises as `audit` does."""
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    from logdrive.pipeline.audit.audit import audit
    from logdrive.pipeline.bronze.tables import open_tables

    open_tables(directory)  # raises if there are no tables, before Spark's slow start
    with _open_engine(options) as engine:
        return audit(directory, engine)


@contextmanager
def _open_engine(options: EngineOptions) -> "Iterator[EngineFactory]":
    if options.name == "spark":
        with _open_spark(options.master) as engine:
            yield engine
        return
    from logdrive.pipeline.audit.engine_arrow import ArrowEngine

    with show_files_read() as on_progress:
        yield functools.partial(ArrowEngine, on_progress=on_progress)


@contextmanager
def _open_spark(master: str | None) -> "Iterator[EngineFactory]":
    from logdrive.pipeline.spark.session import require_spark

    require_spark()
    from logdrive.pipeline.audit.engine_spark import SparkEngine
    from logdrive.pipeline.spark.failures import convert_spark_failures
    from logdrive.pipeline.spark.scratch import open_scratch_directory
    from logdrive.pipeline.spark.session import open_spark_session

    with open_scratch_directory() as place, ExitStack() as held:
        with show_spark_start():
            spark = held.enter_context(
                open_spark_session("logdrive audit", master=master, log=place / "spark.log")
            )
        with convert_spark_failures():
            yield functools.partial(SparkEngine, spark)
