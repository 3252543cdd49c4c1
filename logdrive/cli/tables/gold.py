"""`logdrive pipeline gold`: figures by service and minute, counted from silver."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.pipeline_progress import FirstCountLines, show_amount
from logdrive.cli.stop_event import stop_on_signals
from logdrive.config.load import load_config
from logdrive.errors import ConfigError, Mistake
from logdrive.printable import escape_unprintable

if TYPE_CHECKING:
    from logdrive.pipeline.gold.fill import GoldFollower, GoldTotals
    from logdrive.pipeline.metrics import RunMetrics
    from logdrive.pipeline.plan import Plan

_SERVICES, _ERRORS = 20, 5  # rows that are printed at most
_SHOWN = 100  # characters of an error's message


@click.command(
    short_help="Count rates, errors and latencies by service and minute, from silver.",
    epilog="Example: logdrive pipeline gold /data/logs --once",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--once/--follow",
    default=False,
    help="Exit once gold has counted all that silver has now; or go on until SIGTERM, the default.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def gold(directory: str, once: bool, as_json: bool) -> None:
    """Count the rows in DIRECTORY/silver in the tables of DIRECTORY/gold, each row once.

    It reads what silver has added since the last time, and may run beside `pipeline silver` or
    `pipeline run --silver`, which needs no --gold then. At the end it prints what gold has of each
    service.
    """
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()

    from logdrive.pipeline.gold.fill import LOOK_SECONDS

    configure_logging("info")
    with stop_on_signals() as stop:
        fill(directory, stop, None if once else LOOK_SECONDS, as_json=as_json)


def rebuild_gold(directory: str, *, dry_run: bool, as_json: bool) -> None:
    """Drop the gold tables in *directory* and fill them again, or only say what would be."""
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.gold.backlog import silver_tables
    from logdrive.pipeline.gold.schema import gold_directory
    from logdrive.pipeline.tables.dropping import drop_tables

    if dry_run:
        files = sum(len(table.files) for table in silver_tables(directory).values())
        if as_json:
            emit_json({"read_files": files})
        else:
            print(f"would drop the tables in {gold_directory(directory)}, and read {files:,} files")
        return
    with stop_on_signals() as stop:
        drop_tables(gold_directory(directory), SystemDisk())
        fill(directory, stop, None, as_json=as_json)


@contextmanager
def follow_with_gold(
    plan: "Plan",
    path: str | None,
    stop: threading.Event,
    metrics: "RunMetrics",
    *,
    wanted: bool,
    with_silver: bool,
) -> "Iterator[GoldFollower | None]":
    """Yield what counts the silver tables of *plan* in gold, and what it has counted.

    It is None unless gold is *wanted* or the configuration at *path* enables it. What it counts is
    a figure of *metrics*, too. Raises `ConfigError` and `UsageError` if that run is not one
    *with_silver*: gold would never grow.
    """
    enabled = _is_enabled(path)
    if not (wanted or enabled):
        yield None
        return
    if not with_silver:
        if not enabled or path is None:
            raise click.UsageError("--gold counts what silver has: give --silver, too")
        remedy = "gold counts what silver has: write silver.enabled = true, or give --silver"
        raise ConfigError(path, [Mistake("gold.enabled", "true", remedy)])
    from logdrive.pipeline.gold.fill import GoldFollower

    lines = FirstCountLines(time.monotonic)
    with GoldFollower(
        plan.directory,
        stop,
        compression=plan.compression,
        on_step=lambda step: metrics.note_gold_step(step.lines, step.seconds),
        on_open=lines.begin,
        on_read=lines.add_read,
        wait_for_room=not plan.once,
    ) as follower:
        yield follower


def _is_enabled(path: str | None) -> bool:
    """Return whether the configuration at *path* enables gold."""
    if path is None:
        return False
    from logdrive.pipeline.config import DerivedConfig

    return load_config(path, DerivedConfig, os.environ).gold.enabled


def fill(
    directory: str, stop: threading.Event, follow_seconds: float | None, *, as_json: bool
) -> None:
    """Fill gold, and print what was counted."""
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.gold.fill import fill_gold
    from logdrive.pipeline.gold.writer import Gold

    started, follows = time.monotonic(), follow_seconds is not None
    read, waiting = 0, None
    with show_amount("gold", "rows", quiet=as_json or follows) as tell:

        def on_read(rows: int) -> None:
            nonlocal read
            read += rows
            tell(read, waiting)

        def on_step(so_far: "GoldTotals") -> None:
            tell(read, waiting, so_far.as_json())

        with Gold(directory, disk=SystemDisk(), on_read=on_read) as tables:
            waiting = None if follows else tables.count_waiting_rows()
            if waiting:
                tell(0, waiting)
            totals = fill_gold(tables, stop, on_step, follow_seconds=follow_seconds)
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        emit_json(totals.as_json() | {"seconds": seconds})
        return
    print(f"{totals.lines:,} lines counted in {seconds} s")
    _print_services(directory)
    _print_errors(directory)


def _print_services(directory: str) -> None:
    from logdrive.pipeline.gold.read import read_services

    for row in read_services(directory).slice(0, _SERVICES).to_pylist():
        latency = ", ".join(
            f"{name} {row[name]:.3g} s" for name in ("p50", "p90", "p99") if row[name]
        )
        name = escape_unprintable(row["service"] or "no service")
        print(
            f"  {name} ({escape_unprintable(row['table'])}): {row['lines']:,} lines, "
            f"{row['errors']:,} errors{', ' if latency else ''}{latency}"
        )


def _print_errors(directory: str) -> None:
    from logdrive.pipeline.gold.read import read_errors

    for row in read_errors(directory).slice(0, _ERRORS).to_pylist():
        since = f"{row['first']:%Y-%m-%d %H:%M:%S}" if row["first"] else "unknown"
        said = escape_unprintable((row["message"] or "")[:_SHOWN])
        print(f"  error {row['fingerprint']}, {row['times']:,} times, first {since}: {said}")
