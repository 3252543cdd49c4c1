"""`logdrive pipeline …`: reads streams into tables; other commands on tables are in `tables`."""

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from logdrive.address import host_port
from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.lazy import LazyCommands
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.pipeline_progress import show_progress
from logdrive.cli.stop_event import stop_on_signals
from logdrive.cli.tables.master import MASTER, master_option, warn_of_master
from logdrive.config.load import load_config

if TYPE_CHECKING:
    from logdrive.pipeline.bronze.follower import TableForm
    from logdrive.pipeline.plan import Plan, RunResult

_COMMANDS = {
    "audit": "logdrive.cli.tables.audit",
    "cat": "logdrive.cli.tables.cat",
    "erase": "logdrive.cli.tables.erase",
    "formats": "logdrive.cli.tables.formats",
    "gold": "logdrive.cli.tables.gold",
    "rebuild": "logdrive.cli.tables.silver",
    "replay": "logdrive.cli.tables.replay",
    "report": "logdrive.cli.tables.report",
    "silver": "logdrive.cli.tables.silver",
}


@click.group(
    cls=LazyCommands,
    lazily=_COMMANDS,
    short_help="Read streams into Delta tables with Spark, and audit them.",
    epilog="Example: logdrive pipeline run --config pipeline.toml --once && logdrive pipeline "
    "audit /data/logs",
)
def pipeline() -> None:
    """Read streams into Delta tables with Spark, and audit the tables byte by byte."""


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
@click.option("--once", is_flag=True, help="Exit after reading what the stream holds at the start.")
@click.option(
    "--silver",
    "with_silver",
    is_flag=True,
    help="Fill the silver tables after each commit, too; also `enabled` in [silver].",
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
@master_option("; without it Spark runs in this process.")
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    callback=lambda _, __, value: _check_address(value),
    help="Show Prometheus figures of the run at http://HOST:PORT/metrics.",
)
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def run(
    path: str | None,
    source: str | None,
    target: str | None,
    once: bool,
    with_silver: bool,
    forms: tuple["TableForm", ...],
    reader: str | None,
    master: str | None,
    metrics: str | None,
    access: AccessOptions,
    as_json: bool,
) -> None:
    """Read a stream into DIR/bronze/events and DIR/bronze/batches, each byte exactly once.

    Runs until SIGTERM, or with --once until it has read what the stream holds at the start. With
    --silver each commit's lines become rows of DIR/silver, by their formats.
    """
    from logdrive.cli.tables.silver import follow_with_silver
    from logdrive.pipeline.run import run_pipeline
    from logdrive.pipeline.spark.session import require_spark

    require_spark()

    from logdrive.pipeline.metrics import RunMetrics

    configure_logging("info")
    plan = (
        _plan_from_config(path, once, master)
        if path
        else _plan_from_options(source, target, once, master, access)
    )
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
        follow_with_silver(plan, path, stop, figures, wanted=with_silver) as catch_up,
    ):
        catch_up()

        def on_commit(so_far: "RunResult") -> None:
            print_verdict(so_far)
            catch_up()

        outcome = run_pipeline(plan, stop, on_commit, metrics=figures, starting=starting)
        catch_up()
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        emit_json(outcome.as_json() | {"seconds": seconds})
    else:
        print(
            f"{outcome.events:,} events of {outcome.batches:,} batches, {outcome.bytes:,} "
            f"stored bytes, in {seconds} s"
        )


def _check_address(text: str | None) -> str | None:
    """Return *text* if it is host:port, or none was given. Raises `BadParameter`."""
    try:
        if text is not None:
            host_port(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


def _plan_from_config(path: str, once: bool, master: str | None) -> "Plan":
    from logdrive.pipeline.config import PipelineConfig
    from logdrive.pipeline.plan import Plan

    config = load_config(path, PipelineConfig, os.environ)
    return Plan(
        uri=config.pipeline.source,
        directory=config.pipeline.target,
        once=once,
        max_bytes_per_batch=config.pipeline.max_bytes_per_batch,
        trigger_seconds=config.pipeline.trigger_seconds,
        compression=config.pipeline.compression,
        forms=config.tables.forms,
        master=master or config.spark.master,
        memory=config.spark.memory,
        driver_bytes=config.spark.driver_bytes,
        local_reads=config.pipeline.local_reads,
        metrics=config.metrics.address if config.metrics else "",
        reader=config.pipeline.reader,
        token=config.pipeline.token or "",
        tls=config.tls.settings() if config.tls else None,
        login=config.login.login if config.login else None,
    )


def _plan_from_options(
    source: str | None, target: str | None, once: bool, master: str | None, access: AccessOptions
) -> "Plan":
    from logdrive.pipeline.plan import Plan

    if source is None or target is None:
        raise click.UsageError("give --from URI and --to DIR, or --config FILE")
    return Plan(
        uri=source, directory=target, once=once, master=master, tls=access.tls, login=access.login
    )
