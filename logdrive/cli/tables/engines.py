"""Options that choose what reads the rows for an audit, and the audit with it."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from logdrive.cli.pipeline_progress import show_files_read
from logdrive.cli.tables.master import master_option
from logdrive.errors import os_error_text

if TYPE_CHECKING:
    from logdrive.pipeline.audit.audit import Verdict
    from logdrive.pipeline.tables.delta import AppendTable

Command = TypeVar("Command", bound=Callable[..., Any])
EngineName = Literal["arrow", "spark"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What reads the rows: this process, or Spark at *master* (None: in this process, too)."""

    name: EngineName = "arrow"
    master: str | None = None
    full: bool = False  # True: read all columns of all files, known ones, too


def engine_options(command: Command) -> Command:
    """Add `--engine`, `--master` and `--full` to *command*, which gets them as *engine*."""

    @click.option(
        "--engine",
        "name",
        type=click.Choice(["arrow", "spark"]),
        help="What reads the rows: this process, or Spark, for tables that a cluster holds."
        "  [default: arrow]",
    )
    @master_option(", for --engine spark; without it Spark runs in this process.")
    @click.option(
        "--full",
        is_flag=True,
        help="Read all columns of all files of bronze, those too that earlier audits have read.",
    )
    @functools.wraps(command)
    def with_engine(
        *args: Any, name: EngineName | None, master: str | None, full: bool, **more: Any
    ) -> Any:
        if master is not None and name != "spark":
            raise click.UsageError("give --master with --engine spark only")
        return command(*args, engine=EngineOptions(name or "arrow", master, full), **more)

    return with_engine  # type: ignore[return-value]  # click makes a command of it


@dataclass(frozen=True, slots=True)
class FilesRead:
    """How many files of rows an audit has read, and how many it knew from earlier audits."""

    read: int
    known: int
    not_kept: str = ""  # why a later audit will have to read them again

    @property
    def text(self) -> str:
        """The figures as one line for a person; empty if all files were read, and kept."""
        read = f"{self.read:,} {'file' if self.read == 1 else 'files'} read"
        known = f", {self.known:,} known from earlier audits" if self.known else ""
        again = f"; what was read can't be kept: {self.not_kept}" if self.not_kept else ""
        return f"{read}{known}{again}" if known or again else ""


def audit_tables(directory: str, options: EngineOptions) -> "tuple[Verdict, FilesRead | None]":
    """Audit the tables in *directory*, with progress on standard error.

    Returns also what was read, if it was not Spark that did. Raises as `audit` does.
    """
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    from logdrive.pipeline.bronze.tables import open_tables

    open_tables(directory)  # raises if there are no tables, before Spark's slow start
    if options.name == "spark":
        from logdrive.cli.tables.spark_audit import audit_with_spark

        return audit_with_spark(directory, options.master, full=options.full), None
    return _audit_files(directory, full=options.full)


def _audit_files(directory: str, *, full: bool) -> "tuple[Verdict, FilesRead]":
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.audit.audit import audit
    from logdrive.pipeline.audit.engines.arrow import ArrowEngine
    from logdrive.pipeline.audit.engines.known_files import KnownFiles
    from logdrive.pipeline.bronze.tables import table_paths

    events, _ = table_paths(directory)
    known, engines = KnownFiles(os.path.dirname(events), events, SystemDisk()), []

    def open_engine(table: "AppendTable") -> ArrowEngine:
        engines.append(ArrowEngine(table, known, full=full, on_progress=on_progress))
        return engines[-1]

    with show_files_read() as on_progress:
        verdict = audit(directory, open_engine, full=full)
    (engine,), not_kept = engines, ""
    try:
        engine.keep_figures()
    except OSError as error:  # as for a user who may only read the tables
        not_kept = os_error_text(error)
    return verdict, FilesRead(engine.read_files, engine.known_files, not_kept)
