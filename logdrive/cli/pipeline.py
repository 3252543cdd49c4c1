"""`logdrive pipeline …`: read streams into tables; audit, report on and print the tables."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logdrive.address import host_port
from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.output import configure_logging, emit_json, escape_unprintable, print_error
from logdrive.cli.pipeline_progress import show_progress, show_spark_start
from logdrive.cli.runtime import stop_signals
from logdrive.config.load import load_config
from logdrive.errors import StorageError, os_error_text

if TYPE_CHECKING:
    from logdrive.pipeline.audit.audit import Verdict
    from logdrive.pipeline.plan import Plan

_INCOMPLETE = 1


@click.group(
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
    "--reader",
    metavar="NAME",
    help="Reader name that the stream's retention waits for; '' for none.  [default: pipeline]",
)
@click.option(
    "--master",
    metavar="URL",
    help="Spark cluster, such as spark://host:7077; without it Spark runs in this process.",
)
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
    reader: str | None,
    master: str | None,
    metrics: str | None,
    access: AccessOptions,
    as_json: bool,
) -> None:
    """Read a stream into DIR/bronze/events and DIR/bronze/batches, each byte exactly once.

    Runs until SIGTERM, or with --once until it has read what the stream holds at the start.
    """
    _require_spark()
    from logdrive.pipeline.run import run_pipeline

    configure_logging("info")
    plan = (
        _plan_from_config(path, once, master)
        if path
        else _plan_from_options(source, target, once, master, access)
    )
    if reader is not None:
        plan = replace(plan, reader=reader)
    if metrics is not None:
        plan = replace(plan, metrics=metrics)
    started = time.monotonic()
    with (
        _stop_on_signals() as stop,
        show_progress(plan, quiet=as_json) as (starting, print_verdict),
    ):
        outcome = run_pipeline(plan, stop, print_verdict, starting=starting)
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        emit_json(outcome.as_json() | {"seconds": seconds})
    else:
        print(
            f"{outcome.events:,} events of {outcome.batches:,} batches, {outcome.bytes:,} "
            f"stored bytes, in {seconds} s"
        )


@pipeline.command(
    short_help="Prove that no byte was lost or duplicated, or list which were.",
    epilog="Example: logdrive pipeline audit /data/logs --json",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--allow-unknown-ends",
    is_flag=True,
    help="Exit with 0 if nothing is missing but the ends of files that vanished unread.",
)
@click.option("--deep", is_flag=True, help="Open every pack of the stream --from, too.")
@click.option(
    "--from",
    "source",
    metavar="URI",
    help="Stream that the tables were read from, for --deep.",
)
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit(
    directory: str,
    allow_unknown_ends: bool,
    deep: bool,
    source: str | None,
    access: AccessOptions,
    as_json: bool,
) -> int:
    """Prove from the tables in DIRECTORY that no byte was lost or duplicated.

    Lists the bytes that were, and then exits with 1; with --deep also if a pack of the stream can't
    be opened, or does not hold what its header says, or if a part of the stream can't be read.
    """
    if deep != (source is not None):
        raise click.UsageError("give --deep and --from URI together")
    _require_spark()
    from logdrive.cli.deep_audit import audit_stream, pack_figures, print_packs
    from logdrive.pipeline.audit.text import print_verdict

    found = audit_stream(directory, source, access) if source is not None else None
    verdict = _run_audit(directory)
    if as_json:
        emit_json(verdict.as_json() | (pack_figures(found) if found is not None else {}))
    else:
        if found is not None:
            print_packs(found)
        print_verdict(verdict, allow_unknown_ends=allow_unknown_ends)

    complete = verdict.complete or (allow_unknown_ends and verdict.complete_but_for_ends)
    return 0 if complete and (found is None or found.whole) else _INCOMPLETE


@pipeline.command(
    short_help="Write an HTML report on the tables.",
    epilog="Example: logdrive pipeline report /data/logs --out report.html",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="HTML file to write; it needs no other files.",
)
def report(directory: str, out: Path) -> None:
    """Write an HTML report on the tables in DIRECTORY.

    It shows the audit's verdict, throughput, delay, the coverage of every source, and gaps.
    """
    # fail now, not after an audit of half an hour
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise click.BadParameter(
            f"nothing can be written in {out.parent}: make that directory, or name another",
            param_hint="--out",
        )

    verdict = _run_audit(directory)
    from logdrive.pipeline.audit.report import render_report

    try:
        out.write_text(render_report(directory, verdict), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{out} can't be written: {os_error_text(error)}") from error
    print(
        f"{out}: {'complete' if verdict.complete else 'not complete'}, {verdict.sources:,} "
        f"sources, {verdict.events:,} events"
    )


@pipeline.command(
    short_help="Print one source's file, byte for byte.",
    epilog="Example: logdrive pipeline cat /data/logs /var/log/app.log > app.log",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.argument("source")
def cat(directory: str, source: str) -> int:
    """Print one source's file, byte for byte as it was.

    What is quarantined is left out and named on standard error; it then exits with 1.

    SOURCE is the source's id as the audit lists it, the beginning of the id, or the file's path.
    """
    _require_spark()
    from logdrive.pipeline.bronze.rebuild import (
        find_source,
        quarantined_parts,
        source_pieces,
    )

    try:
        found = find_source(directory, source)
        parts = quarantined_parts(directory, found)
        for _, data in source_pieces(directory, found, needed=not parts):
            sys.stdout.buffer.write(data)
    except ValueError as error:
        raise click.ClickException(
            "\n".join(map(escape_unprintable, str(error).split("\n")))
        ) from error
    sys.stdout.buffer.flush()
    for part in parts:
        print_error(f"{part.text}; its lines are left out")
    return _INCOMPLETE if parts else 0


def _check_address(text: str | None) -> str | None:
    """Return *text* if it is host:port, or none was given. Raises `BadParameter`."""
    try:
        if text is not None:
            host_port(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


def _require_spark() -> None:
    from logdrive.pipeline.spark.session import require_spark

    require_spark()


def _run_audit(directory: str) -> "Verdict":
    _require_spark()
    from logdrive.pipeline.audit.audit import audit
    from logdrive.pipeline.bronze.tables import open_tables
    from logdrive.pipeline.spark.failures import convert_spark_failures
    from logdrive.pipeline.spark.scratch import open_scratch_directory
    from logdrive.pipeline.spark.session import open_spark_session

    open_tables(directory)  # raises if there are no tables, before Spark's slow start
    with open_scratch_directory() as place, ExitStack() as held:
        with show_spark_start():
            spark = held.enter_context(
                open_spark_session("logdrive audit", log=place / "spark.log")
            )
        with convert_spark_failures():
            return audit(directory, spark)


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
        master=master or config.spark.master,
        memory=config.spark.memory,
        driver_bytes=config.spark.driver_bytes,
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


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that the first stop signal sets; a second signal ends the process."""
    stop = threading.Event()

    def on_signal(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in stop_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
