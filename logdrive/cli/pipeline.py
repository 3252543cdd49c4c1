"""`logdrive pipeline …`: reads streams into tables; other commands on tables are in `tables`."""

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from logdrive.address import host_port
from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.lazy import LazyCommands
from logdrive.cli.log_forms import LogForm
from logdrive.cli.log_options import log_format_option
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.pipeline_plan import (
    parse_start_option,
    plan_from_config,
    plan_from_options,
)
from logdrive.cli.pipeline_progress import show_progress
from logdrive.cli.stop_event import stop_on_signals
from logdrive.cli.tables.master import MASTER, master_option, warn_of_master
from logdrive.host.heap import settle_heap

if TYPE_CHECKING:
    from logdrive.pipeline.bronze.follower import TableForm
    from logdrive.pipeline.plan import RunResult
    from logdrive.pipeline.read.start import Start

_COMMANDS = {
    "audit": "logdrive.cli.tables.audit",
    "backfill": "logdrive.cli.tables.backfill",
    "cat": "logdrive.cli.tables.cat",
    "erase": "logdrive.cli.tables.erase",
    "formats": "logdrive.cli.tables.formats",
    "gold": "logdrive.cli.tables.gold",
    "publish": "logdrive.cli.tables.publish",
    "rebuild": "logdrive.cli.tables.silver",
    "replay": "logdrive.cli.tables.replay",
    "report": "logdrive.cli.tables.report",
    "silver": "logdrive.cli.tables.silver",
}

_LIBRARIES: Final = {
    # ms until Arrow's allocator gives freed memory back: with its default of 10 the kernel zeroes
    # the same pages for each row group, which takes 5 % of the CPU
    "MIMALLOC_PURGE_DELAY": "2000",
    # linear algebra, which nothing here uses, would have a thread a core that waits for work
    "OPENBLAS_NUM_THREADS": "1",
}
for _name, _value in _LIBRARIES.items():  # they look once, when they are imported
    os.environ.setdefault(_name, _value)


class _PipelineCommands(LazyCommands):
    """The commands of the pipeline; without its packages each says what to install."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that *ctx* names. Raises `PackagesMissingError`."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError:  # of any import, be it that of an option's type
            from logdrive.pipeline.tables.installed import require_tables

            require_tables()
            raise


@click.group(
    cls=_PipelineCommands,
    lazily=_COMMANDS,
    short_help="Read streams into Delta tables, and audit them.",
    epilog="Example: logdrive pipeline run --config pipeline.toml --once && logdrive pipeline "
    "audit /data/logs",
)
def pipeline() -> None:
    """Read streams into Delta tables, and audit the tables byte by byte."""


@pipeline.command(
    short_help="Read a stream into tables, each byte exactly once.",
    epilog="Example: logdrive pipeline run --from file:///var/lib/logdrive/store#logs/events "
    "--to /data/logs --once",
)
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False),
    help="TOML file, instead of --from and --to.",
)
@click.option(
    "--from",
    "source",
    metavar="URI",
    help="Stream to read: file:///path#scope/stream, pravega://host:port/scope/stream, "
    "s2://host:port/basin/stream or iggy://host:port/stream/topic.",
)
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Directory of the tables; created if missing.",
)
@click.option(
    "--start",
    metavar="TIME|AGE",
    callback=lambda _, __, value: parse_start_option("--start", value),
    help="Begin new tables with what was received at a time (2026-11-20T00:00Z), or an age ago "
    "(24h, 7d); `pipeline backfill` fills what lies before. Also `start` in [pipeline].  "
    "[default: all that the stream has]",
)
@click.option(
    "--replaced-store",
    is_flag=True,
    help="The store was replaced for good: go on with another one than the tables were filled "
    "from, which is refused else.",
)
@click.option("--once", is_flag=True, help="Exit after reading what the stream holds at the start.")
@click.option(
    "--silver",
    "with_silver",
    is_flag=True,
    help="Fill the silver tables after each commit, too; also `enabled` in [silver].",
)
@click.option(
    "--gold",
    "with_gold",
    is_flag=True,
    help="Count in the gold tables, too, what silver has, every 10 s; also `enabled` in [gold]. It "
    "needs silver in the same run.",
)
@click.option(
    "--show",
    "forms",
    type=click.Choice(["iceberg", "parquet"]),
    multiple=True,
    help="Show the tables in another form, too; also in [tables].",
)
@click.option(
    "--reader",
    metavar="NAME",
    help="Reader name that the stream's retention waits for; '' for none.  [default: pipeline]",
)
@master_option("; without it this process does the work, with a thread a core.")
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    callback=lambda _, __, value: _check_address(value),
    help="Show Prometheus figures of the run at http://HOST:PORT/metrics.",
)
@log_format_option
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def run(
    path: str | None,
    source: str | None,
    target: str | None,
    start: "Start | None",
    replaced_store: bool,
    once: bool,
    with_silver: bool,
    with_gold: bool,
    forms: tuple["TableForm", ...],
    reader: str | None,
    master: str | None,
    metrics: str | None,
    log_format: LogForm,
    access: AccessOptions,
    as_json: bool,
) -> None:
    """Read a stream into DIR/bronze/events and DIR/bronze/batches, each byte exactly once.

    Runs until SIGTERM, or with --once until it has read what the stream holds at the start. With
    --silver each commit's lines become rows of DIR/silver, by their formats; with --gold these are
    counted in DIR/gold, by service and minute.

    Tables go on where they end. With --start new ones begin at a time; tables that are there keep
    the beginning that they have, and another time is refused.
    """
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    from logdrive.cli.tables.follow import follow_with_tables
    from logdrive.pipeline.metrics import RunMetrics
    from logdrive.pipeline.run import run_pipeline

    configure_logging("info", log_format)
    settle_heap()
    plan = (
        plan_from_config(path, once, master)
        if path
        else plan_from_options(source, target, once, master, access)
    )
    if start is not None:
        plan = replace(plan, start=start)
    plan = replace(plan, replaced_store=replaced_store)
    if reader is not None:
        plan = replace(plan, reader=reader)
    if forms:
        plan = replace(plan, forms=forms)
    if metrics is not None:
        plan = replace(plan, metrics=metrics)
    warn_of_master(MASTER if master else f"spark.master in {path}", plan.master)
    figures = RunMetrics()
    started = time.monotonic()
    with (
        stop_on_signals() as stop,
        show_progress(plan, quiet=as_json) as (starting, print_verdict),
        follow_with_tables(
            plan, path, stop, figures, with_silver=with_silver, with_gold=with_gold
        ) as derived,
    ):
        derived.catch_up()

        def on_commit(so_far: "RunResult") -> None:
            print_verdict(so_far)
            derived.catch_up()

        # a backfill beside this run adds rows, too
        outcome = run_pipeline(
            plan, stop, on_commit, metrics=figures, starting=starting, on_idle=derived.catch_up
        )
        derived.finish()
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        emit_json(outcome.as_json() | derived.as_json() | {"seconds": seconds})
    else:
        print(
            f"{outcome.events:,} events of {outcome.batches:,} batches, {outcome.bytes:,} "
            f"stored bytes, in {seconds} s"
        )
        for line in derived.summary():
            print(line)


def _check_address(text: str | None) -> str | None:
    """Return *text* if it is host:port, or none was given. Raises `BadParameter`."""
    try:
        if text is not None:
            host_port(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text
