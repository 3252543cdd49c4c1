"""`logdrive pipeline …`: streams into tables, and what the tables say."""

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

from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.output import emit_json, escaped, set_up_logging
from logdrive.cli.pipeline_progress import shown, starting_spark
from logdrive.cli.runtime import ending_signals
from logdrive.config.load import load_config
from logdrive.errors import StorageError, os_error_text

if TYPE_CHECKING:
    from logdrive.pipeline.audit.audit import Verdict
    from logdrive.pipeline.run import Plan

_INCOMPLETE = 1


@click.group(
    epilog="Example: logdrive pipeline run --config pipeline.toml --once && logdrive pipeline "
    "audit /data/logs"
)
def pipeline() -> None:
    """Spark: from streams to tables, audited byte by byte."""


@pipeline.command(
    short_help="Read a stream into tables, each byte once.",
    epilog="Example: logdrive pipeline run --from file:///var/lib/logdrive/store#logs/events "
    "--to /data/logs --once",
)
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False),
    help="A TOML file, instead of --from and --to.",
)
@click.option(
    "--from",
    "source",
    metavar="URI",
    help="The stream: file:///path#scope/stream or pravega://host:port/scope/stream.",
)
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Where the tables are, made where missing.",
)
@click.option("--once", is_flag=True, help="End when all that is there now has been read.")
@click.option(
    "--reader",
    metavar="NAME",
    help="Name under which retention waits for these tables; '' for none.  [default: pipeline]",
)
@click.option(
    "--master",
    metavar="URL",
    help="A Spark cluster, such as spark://host:7077; without it Spark runs here.",
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
    access: AccessOptions,
    as_json: bool,
) -> None:
    """Read a stream into the tables DIR/bronze/events and DIR/bronze/batches, each byte once, until
    SIGTERM or --once is done.
    """
    _require_spark()
    from logdrive.pipeline.run import run as run_plan

    set_up_logging("info")
    plan = _configured(path, once, master) if path else _asked(source, target, once, master, access)
    if reader is not None:
        plan = replace(plan, reader=reader)
    started = time.monotonic()
    with _stopped_by_signals() as stop, shown(plan, quiet=as_json) as (starting, tell):
        outcome = run_plan(plan, stop, tell, starting=starting)
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        emit_json(outcome.as_json() | {"seconds": seconds})
    else:
        print(
            f"{outcome.events:,} events of {outcome.batches:,} batches, {outcome.bytes:,} "
            f"stored bytes, in {seconds} s"
        )


@pipeline.command(
    short_help="Prove that no byte was lost or doubled, or list which were.",
    epilog="Example: logdrive pipeline audit /data/logs --json",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--allow-unknown-ends",
    is_flag=True,
    help="End with 0 where all that is missing are ends of files that nobody saw.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit(directory: str, allow_unknown_ends: bool, as_json: bool) -> int:
    """Prove from the tables in DIRECTORY that no byte was lost or doubled, or list which were; ends
    with 1 then.
    """
    found = _audited(directory)
    if as_json:
        emit_json(found.as_json())
    else:
        from logdrive.pipeline.audit.text import tell

        tell(found, allow_unknown_ends=allow_unknown_ends)
    return (
        0 if found.complete or (allow_unknown_ends and found.complete_but_for_ends) else _INCOMPLETE
    )


@pipeline.command(
    short_help="Write what the tables say as one HTML page.",
    epilog="Example: logdrive pipeline report /data/logs --out report.html",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The HTML file to write: one file, nothing beside it.",
)
def report(directory: str, out: Path) -> None:
    """Write what the tables in DIRECTORY say as one page: verdict, throughput, delay, every
    source's cover, gaps.
    """
    # before an audit of half an hour
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise click.BadParameter(
            f"nothing can be written in {out.parent}: make that directory, or name another",
            param_hint="--out",
        )
    found = _audited(directory)
    from logdrive.pipeline.audit.report import page

    try:
        out.write_text(page(directory, found), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{out} can't be written: {os_error_text(error)}") from error
    print(
        f"{out}: {'complete' if found.complete else 'not complete'}, {found.sources:,} "
        f"sources, {found.events:,} events"
    )


@pipeline.command(
    short_help="Print the file of one source, byte for byte.",
    epilog="Example: logdrive pipeline cat /data/logs /var/log/app.log > app.log",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.argument("source")
def cat(directory: str, source: str) -> None:
    """Print the file of one source, byte for byte as it was; SOURCE is its id as the audit lists
    it, the id's beginning, or a path.
    """
    _require_spark()
    from logdrive.pipeline.bronze.rebuild import find_source, source_pieces

    try:
        for _, data in source_pieces(directory, find_source(directory, source)):
            sys.stdout.buffer.write(data)
    except ValueError as error:
        raise click.ClickException("\n".join(map(escaped, str(error).split("\n")))) from error


def _require_spark() -> None:
    from logdrive.pipeline.spark.session import require_spark

    require_spark()


def _audited(directory: str) -> "Verdict":
    _require_spark()
    from logdrive.pipeline.audit.audit import audit as audited
    from logdrive.pipeline.bronze.tables import open_both
    from logdrive.pipeline.spark.failures import spark_failures
    from logdrive.pipeline.spark.scratch import scratch
    from logdrive.pipeline.spark.session import session

    open_both(directory)  # Spark takes long to start, only to say that there are none
    with scratch() as place, ExitStack() as held:
        with starting_spark():
            spark = held.enter_context(session("logdrive audit", log=place / "spark.log"))
        with spark_failures():
            return audited(directory, spark)


def _configured(path: str, once: bool, master: str | None) -> "Plan":
    from logdrive.pipeline.config import PipelineConfig
    from logdrive.pipeline.run import Plan

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
        reader=config.pipeline.reader,
        tls=config.tls.settings() if config.tls else None,
        login=config.login.login if config.login else None,
    )


def _asked(
    source: str | None, target: str | None, once: bool, master: str | None, access: AccessOptions
) -> "Plan":
    from logdrive.pipeline.run import Plan

    if source is None or target is None:
        raise click.UsageError("give --from URI and --to DIR, or --config FILE")
    return Plan(
        uri=source, directory=target, once=once, master=master, tls=access.tls, login=access.login
    )


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Yield what `ending_signals` set; a second one ends the process as usual."""
    stop = threading.Event()

    def asked(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    before = {number: signal.signal(number, asked) for number in ending_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
