"""`logdrive demo`: the whole way, with kills, in a few minutes."""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from logdrive.address import ServiceAddress, is_loopback, sink_address
from logdrive.cli.access import login_options
from logdrive.cli.demo.performance import DemoResult, Performance, Say
from logdrive.cli.demo.system import machine_logs
from logdrive.cli.output import emit_json
from logdrive.pipeline.spark.session import require_spark
from logdrive.services.pravega.client.controller import Login

_MARK = ".logdrive-demo"


@click.command(
    short_help="Watch lines travel from rotating files to an audited table.",
    epilog="Example: logdrive demo --lines 500000 --work /tmp/demo",
)
@click.option(
    "--lines",
    type=click.IntRange(1_000),
    default=200_000,
    show_default=True,
    help="How many lines the applications write.",
)
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything happens and stays (default: a new temporary directory).",
)
@click.option(
    "--sink",
    metavar="URI",
    callback=lambda context, option, value: _service(value),
    help="A new stream at a Pravega on this machine, as in pravega://127.0.0.1:9090/demo/logs "
    "(default: a store in the work directory).",
)
@login_options
@click.option(
    "--system-logs/--no-system-logs",
    default=True,
    help="Read this machine's own readable /var/log, too (32 MiB at most); it does by default.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def demo(
    lines: int,
    work: Path | None,
    sink: str | None,
    login: Login | None,
    system_logs: bool,
    as_json: bool,
) -> int:
    """Watch log lines travel from rotating files to an audited table, with the receiver and the
    agent killed on the way.
    """
    require_spark()  # before two minutes have gone by
    place = _prepared(work)
    logs = machine_logs() if system_logs else []
    _announce(place, logs)

    def play(say: Say) -> DemoResult:
        return Performance(
            place, lines, say, machine_logs=logs, service=sink, login=login if sink else None
        ).run()

    if sys.stderr.isatty() and not as_json:
        columns = (
            BarColumn(24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=1.0)
            outcome = play(
                lambda text, share: progress.update(task, description=text, completed=share)
            )
            progress.update(task, description="done", completed=1.0)
    else:
        outcome = play(_plain_lines())
    print(f"to remove what it left: rm -r {shlex.quote(str(place))}", file=sys.stderr)
    if as_json:
        emit_json(outcome.as_json())
    else:
        _tell(outcome)
    return 0 if outcome.complete and not outcome.lost and not outcome.doubled else 1


def _announce(place: Path, logs: Sequence[str]) -> None:
    """Say, before anything happens, what is read and where what is made stays."""
    print(f"everything happens, and stays, in {place}", file=sys.stderr)
    if logs:
        print(
            f"besides what 24 applications write there, {len(logs)} of this machine's own "
            "logs in /var/log are read, and copied there "
            "(not with --no-system-logs)",
            file=sys.stderr,
        )


def _service(uri: str | None) -> str | None:
    """Refuse what is no stream at a service that plain TCP may go to."""
    if uri is None:
        return None
    try:
        address = sink_address(uri)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not (isinstance(address, ServiceAddress) and is_loopback(address.host)):
        raise click.BadParameter(
            "the demo goes to a streaming service of this machine: write "
            "pravega://127.0.0.1:9090/scope/stream"
        )
    return uri


def _prepared(work: Path | None) -> Path:
    """Return an empty work directory; an earlier demo's is emptied, anything else is refused."""
    if work is None:
        place = Path(tempfile.mkdtemp(prefix="logdrive-demo-"))
    else:
        place = work.resolve()
        if place.exists() and any(place.iterdir()):
            if not (place / _MARK).exists():
                raise click.UsageError(
                    f"{work} holds something that is not an earlier demo: name an empty directory"
                )
            shutil.rmtree(place)
        place.mkdir(parents=True, exist_ok=True)
    (place / _MARK).touch()
    return place


def _plain_lines() -> Say:
    """Return a teller for pipes and log files: a line whenever a tenth more is done or something
    new happens.
    """
    told: list[tuple[str, int]] = []

    def say(text: str, share: float) -> None:
        step = (text.split(" ", 1)[-1] if text[:1].isdigit() else text, int(share * 10))
        if not told or (step[1] != told[-1][1] or not text[:1].isdigit()):
            print(f"{share:4.0%}  {text}", file=sys.stderr, flush=True)
            told.append(step)

    return say


def _tell(outcome: DemoResult) -> None:
    """Print what happened; the last line is the one that matters."""
    print(
        f"{outcome.files} files of 24 applications and {outcome.machine_files} of this "
        f"machine's own logs, in {outcome.seconds} s"
    )
    print("killed on the way: the receiver once, the agent once")
    print(f"report: {outcome.report}")
    verdict = "complete" if outcome.complete else "NOT COMPLETE"
    print(
        f"{verdict}: {outcome.table_lines:,} lines, {outcome.table_bytes:,} bytes, "
        f"{outcome.sources} sources, "
        f"{outcome.lost:,} bytes lost, {outcome.doubled:,} lines doubled"
    )
