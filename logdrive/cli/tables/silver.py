"""`logdrive pipeline silver` and `rebuild`: rows of silver by the formats of their lines."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.pipeline_progress import QuarantineLines, show_amount, show_spark_start
from logdrive.cli.stop_event import stop_on_signals
from logdrive.cli.tables.master import master_option, require_master
from logdrive.config.load import load_config
from logdrive.errors import ConfigError

if TYPE_CHECKING:
    from logdrive.pipeline.metrics import RunMetrics
    from logdrive.pipeline.plan import Plan
    from logdrive.pipeline.silver.config import SilverConfig
    from logdrive.pipeline.silver.fill import SilverTotals
    from logdrive.pipeline.silver.parse import FormatReason
    from logdrive.pipeline.silver.writer import Silver, StepCounts
    from logdrive.pipeline.tasks import Tasks

_config_option = click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False),
    help="TOML file whose [silver] says which formats the lines have, with or without the rest of "
    "pipeline.toml; without it they are told by the first lines of each source.",
)
_master_option = master_option("; without it this process does the work, with a thread a core.")
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object at the end."
)


@click.command(
    short_help="Fill the silver tables: lines by their formats, as columns.",
    epilog="Example: logdrive pipeline silver /data/logs --once",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--once/--follow",
    default=False,
    help="Exit once silver has all that bronze has now; or go on until SIGTERM, the default.",
)
@_config_option
@_master_option
@_json_option
def silver(directory: str, once: bool, path: str | None, master: str | None, as_json: bool) -> None:
    """Make the lines in DIRECTORY/bronze rows of tables in DIRECTORY/silver, by their formats.

    Each line becomes one row: of its format's table, of `text` if it has no format, of `quarantine`
    if its format can't read it. It can run beside `pipeline run`, which needs no --silver then.
    """
    configure_logging("info")
    config, compression, seconds = _settings(path)
    with stop_on_signals() as stop, _tasks(directory, master) as tasks, _naming(path):
        tables = _tables(directory, config, compression, tasks)
        _fill(tables, stop, None if once else seconds, as_json=as_json)


@click.command(
    short_help="Make bronze, silver or gold tables anew.",
    epilog="Example: logdrive pipeline rebuild /data/logs --table silver --config pipeline.toml",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--table",
    type=click.Choice(["bronze", "silver", "gold"]),
    required=True,
    help="Which tables: those of bronze, all of silver, or all of gold.",
)
@click.option(
    "--from",
    "source",
    metavar="URI",
    help="Stream that bronze was made from, and is made from again.",
)
@access_options
@_config_option
@_master_option
@click.option("--dry-run", is_flag=True, help="Only say what would be dropped and read.")
@_json_option
def rebuild(
    directory: str,
    table: str,
    source: str | None,
    access: AccessOptions,
    path: str | None,
    master: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Drop the silver tables in DIRECTORY and fill them again from bronze, or gold from silver.

    Bronze is made anew beside the old tables, from the stream, and takes their place when it has
    all that they have; what was stopped or killed goes on when it is run again. It is refused where
    the stream no longer has what the tables have, or lines were erased from them.

    Formats are decided anew, by the configuration and the product as they are now. What was begun
    and stopped goes on with `pipeline silver DIRECTORY`; to run this again begins anew. After
    silver, gold has to be made anew, too.
    """
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.bronze.tables import open_tables
    from logdrive.pipeline.silver.balance import silver_balance
    from logdrive.pipeline.silver.rebuild import drop_silver

    configure_logging("info")
    if (table == "bronze") != (source is not None):
        raise click.UsageError("give --from URI with --table bronze, and only then")
    if source is not None:
        from logdrive.cli.tables.bronze import rebuild_bronze_tables

        rebuild_bronze_tables(directory, source, master, access, dry_run=dry_run, as_json=as_json)
        return
    if table == "gold":
        from logdrive.cli.tables.gold import rebuild_gold

        rebuild_gold(directory, dry_run=dry_run, as_json=as_json)
        return
    config, compression, _ = _settings(path)
    if dry_run:
        events, _ = open_tables(directory)
        balance = silver_balance(directory)
        rows_of = balance.tables if balance is not None else {}
        would = {"drop": rows_of, "read_files": len(events.files)}
        if as_json:
            emit_json(would)
        else:
            dropped = ", ".join(f"{name} ({rows:,} rows)" for name, rows in rows_of.items())
            print(f"would drop {dropped or 'nothing'}, and read {len(events.files):,} files")
        return
    with stop_on_signals() as stop, _tasks(directory, master) as tasks:
        tables = _tables(directory, config, compression, tasks)
        drop_silver(directory, SystemDisk())
        _fill(tables, stop, None, as_json=as_json)


@contextmanager
def follow_with_silver(
    plan: "Plan",
    path: str | None,
    stop: threading.Event,
    metrics: "RunMetrics",
    *,
    wanted: bool,
) -> "Iterator[tuple[Callable[[], object], SilverTotals | None]]":
    """Yield what fills the silver tables of *plan* up to bronze's present end, and what it has
    added to them so far.

    It does nothing, and adds None, unless silver is *wanted* or the configuration at *path* enables
    it. What it quarantines is told in the log. What its steps do is counted in *metrics*.
    """
    config, _, _ = _settings(path)
    if not (wanted or config.enabled):
        yield lambda: None, None
        return
    from logdrive.pipeline.silver.fill import SilverFollower, SilverTotals

    totals = SilverTotals()
    with _quarantine_lines() as tell:

        def on_step(step: "StepCounts") -> None:
            totals.add_step(step)
            metrics.note_silver_step(step.tables, step.seconds)
            tell(step.reasons)
            metrics.note_quarantined(step.reasons)

        with (
            _naming(path),
            SilverFollower(
                plan.directory,
                config,
                stop,
                compression=plan.compression,
                on_step=on_step,
                wait_for_room=not plan.once,
            ) as follower,
        ):
            metrics.watch_silver(lambda: follower.waiting_versions)
            yield follower.catch_up, totals


@contextmanager
def _quarantine_lines() -> "Iterator[Callable[[Mapping[FormatReason, int]], None]]":
    """Yield what tells in the log of rows in quarantine; of what is left, after the context."""
    lines = QuarantineLines(time.monotonic)
    try:
        yield lines.tell
    finally:
        lines.finish()


def _settings(path: str | None) -> "tuple[SilverConfig, str, float]":
    """Return [silver], the compression of files, and how often to look for new lines."""
    from logdrive.pipeline.config import DerivedConfig
    from logdrive.pipeline.plan import TRIGGER_SECONDS
    from logdrive.pipeline.silver.config import SilverConfig
    from logdrive.pipeline.tables.files import DEFAULT_COMPRESSION

    if path is None:
        return SilverConfig(), DEFAULT_COMPRESSION, TRIGGER_SECONDS
    config = load_config(path, DerivedConfig, os.environ)
    if config.pipeline is None:
        return config.silver, DEFAULT_COMPRESSION, TRIGGER_SECONDS
    return config.silver, config.pipeline.compression, config.pipeline.trigger_seconds


@contextmanager
def _naming(path: str | None) -> Iterator[None]:
    """Add the file at *path* to what the tables have against its [silver]."""
    from logdrive.pipeline.silver.format_tables import CONFIG_PART

    try:
        yield
    except ConfigError as error:
        if path is None or error.file != CONFIG_PART:
            raise
        named = [replace(each, key=f"{CONFIG_PART}.{each.key}") for each in error.mistakes]
        raise ConfigError(path, named) from error


@contextmanager
def _tasks(directory: str, master: str | None) -> "Iterator[Tasks]":
    """Yield what runs the parts of a step: Spark at *master*, or threads of this process."""
    from logdrive.pipeline.tasks import InThreads

    if master is None:
        yield InThreads()
        return
    from logdrive.pipeline.spark.session import open_spark_context
    from logdrive.pipeline.spark.tasks import SparkTasks

    require_master(master)
    log = Path(directory, "spark.log")
    with ExitStack() as held:
        with show_spark_start():
            context = held.enter_context(
                open_spark_context("logdrive silver", master=master, log=log)
            )
        yield SparkTasks(context, log)


def _tables(directory: str, config: "SilverConfig", compression: str, tasks: "Tasks") -> "Silver":
    from logdrive.host.clock import SystemClock
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.silver.writer import Silver

    return Silver(
        directory, config, tasks, clock=SystemClock(), disk=SystemDisk(), compression=compression
    )


def _fill(
    tables: "Silver", stop: threading.Event, follow_seconds: float | None, *, as_json: bool
) -> None:
    from logdrive.pipeline.silver.fill import fill_silver
    from logdrive.pipeline.tasks import StoppedError, stopping_on

    started, follows = time.monotonic(), follow_seconds is not None
    with (
        tables,
        _quarantine_lines() as tell_reasons,
        show_amount("silver", "bytes", quiet=as_json or follows) as tell,
    ):
        waiting = None
        if not follows:
            with stopping_on(stop), suppress(StoppedError):
                waiting = tables.count_waiting_bytes()
        if waiting:
            tell(0, waiting)

        def on_step(so_far: "SilverTotals", step: "StepCounts") -> None:
            tell(so_far.bytes, waiting, so_far.as_json())
            tell_reasons(step.reasons)

        totals = fill_silver(tables, stop, on_step, follow_seconds=follow_seconds)
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        emit_json(totals.as_json() | {"seconds": seconds})
        return
    print(f"{totals_text(totals)}, in {seconds} s")


def totals_text(totals: "SilverTotals") -> str:
    """Return what was added to silver, for people."""
    unsure = f", {totals.unsure:,} that may be there twice" if totals.unsure else ""
    return (
        f"{totals.rows:,} rows, {totals.quarantined:,} quarantined, {totals.duplicates:,} sent "
        f"again{unsure}"
    )
