"""`logdrive pipeline publish`: keeps a copy of the tables in S3-compatible storage."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
import structlog

from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.stop_event import stop_on_signals
from logdrive.errors import StorageError
from logdrive.net.retry import Backoff, Exponential

if TYPE_CHECKING:
    from logdrive.pipeline.publish.publish import Publisher
    from logdrive.pipeline.publish.totals import PublishTotals

_EVERY_SECONDS: Final = 60.0
_WAIT: Final = Exponential(1.0, 60.0)  # seconds between two rounds that fail


@click.command(
    short_help="Keep a copy of the tables in S3-compatible storage.",
    epilog="Example: logdrive pipeline publish /data/logs s3://lake/logs --once "
    "--endpoint https://minio.example.org:9000",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.argument("to", metavar="TO")
@click.option(
    "--once/--follow",
    default=False,
    help="Exit once the copy is what the tables are now; or go on until SIGTERM, the default.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=1.0),
    default=_EVERY_SECONDS,
    show_default=True,
    help="Seconds between two looks at the tables.",
)
@click.option("--endpoint", metavar="URL", help="URL of a store that is not Amazon's.")
@click.option("--region", help="Region of the bucket.")
@click.option("--replace", is_flag=True, help="Delete copies of tables that were made anew since.")
@click.option("--dry-run", is_flag=True, help="Only say what would be written and deleted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def publish(
    directory: str,
    to: str,
    once: bool,
    every: float,
    endpoint: str | None,
    region: str | None,
    replace: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Copy the Delta tables in DIRECTORY to TO, an address such as s3://bucket/logs.

    Whoever reads the copy, with Spark, Trino or anything else that knows Delta, finds a whole
    version of each table at any moment. Run this beside `pipeline run`; what was stopped or killed
    goes on when it is run again. What the tables have lost, as by `pipeline erase`, is deleted
    there, too, and so are copies of tables that it dropped. Nobody else may write there.

    Keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the machine's role.
    """
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.publish.bucket import open_bucket
    from logdrive.pipeline.publish.publish import Publisher
    from logdrive.pipeline.tables.installed import require_tables
    from logdrive.pipeline.tables.lock import PUBLISH, lock_tables

    require_tables()
    configure_logging("info")
    bucket = open_bucket(to, endpoint=endpoint, region=region)
    bucket.check_bucket()
    if dry_run:
        plan = Publisher(directory, bucket).plan(replace=replace)
        _print(plan, to, "would be", as_json=as_json)
        return
    started = time.monotonic()
    with (
        lock_tables(directory, SystemDisk(), PUBLISH),
        stop_on_signals() as stop,
        _show_bytes(quiet=as_json or not once) as on_file,
    ):
        publisher = Publisher(directory, bucket, on_file)
        if replace:
            for table in publisher.drop_replaced():
                structlog.get_logger("pipeline").info("copy deleted", copy=f"{to}/{table}")
        is_complete = _run(publisher, stop, None if once else every)
    if as_json:
        values = {"complete": is_complete, "seconds": round(time.monotonic() - started, 1)}
        emit_json(publisher.totals.as_json() | values)
    else:
        _print(publisher.totals, to, "were", as_json=False)
    if once and not is_complete:
        raise StorageError("stopped before the copy was complete: run this again to go on")


def _run(publisher: "Publisher", stop: threading.Event, every: float | None) -> bool:
    """Publish once, or every so many seconds until *stop*; return whether the last round ended.

    Raises what the first round raises; when a later one fails, it is tried again.
    """
    from logdrive.pipeline.tasks import StoppedError

    backoff, log, is_first = Backoff(_WAIT), structlog.get_logger("pipeline"), True
    while True:
        try:
            publisher.publish(stop)
        except StoppedError:
            return False
        except StorageError as error:
            if every is None or is_first:
                raise
            seconds = backoff.next_wait()
            log.warning("publishing failed and is tried again", error=str(error), seconds=seconds)
            if stop.wait(seconds):
                return False
            continue
        is_first = False
        backoff.reset()
        if every is not None:
            log.info("published", **{t.table: t.version for t in publisher.totals.tables.values()})
        if every is None or stop.wait(every):
            return True


@contextmanager
def _show_bytes(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for the bytes that were written, and that are to be."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns,
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    ) as bars:
        bar = bars.add_task("writing", total=None)
        yield lambda done, whole: bars.update(bar, completed=done, total=whole)


def _print(totals: "PublishTotals", to: str, were: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(totals.as_json())
        return
    for table in totals.tables.values():
        print(
            f"{to.rstrip('/')}/{table.table}, version {table.version}: {table.files:,} files, "
            f"{table.bytes:,} bytes, {were} written, {table.deleted:,} deleted"
        )
    for name, objects in totals.erased.items():
        print(
            f"{to.rstrip('/')}/{name}: {objects:,} objects {were} deleted, a copy from before "
            "lines were erased"
        )
