"""`logdrive demo`: ship simulated logs to audited tables, with kills, in half a minute."""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from logdrive.address import IggyAddress, StreamAddress, is_loopback, sink_address
from logdrive.cli.access import login_options
from logdrive.cli.demo.scenario import SERVED_STORES, DemoResult, DemoScenario, ReportStep
from logdrive.cli.demo.system import find_machine_logs
from logdrive.cli.output import emit_json
from logdrive.pipeline.tables.installed import require_tables
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
    help="Number of lines that the applications write.",
)
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Work directory, kept afterwards; default: a new temporary directory.",
)
@click.option(
    "--sink",
    metavar="URI|s2|iggy",
    callback=lambda context, option, value: _check_sink(value),
    help="New stream at a service on this machine, as in pravega://127.0.0.1:9090/demo/logs, "
    "s2://127.0.0.1:8080/demo-logs/events or iggy://127.0.0.1:8090/demo/logs; s2 or iggy: a store "
    "in the work directory that speaks this protocol; default: a store in the work directory.",
)
@login_options
@click.option(
    "--system-logs/--no-system-logs",
    default=True,
    help="Also read this machine's readable logs in /var/log, at most 32 MiB (on by default).",
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
    """Watch log lines travel from rotating files to an audited table.

    The receiver and the agent are killed with SIGKILL on the way, and with --sink s2 or iggy the
    store. Exits with 1 if a line is lost or duplicated. Give --sink a stream that is new: what an
    earlier demo has sent there is counted, too.
    """
    if sink is not None and login is None:
        sink, login = _apart(sink)
    require_tables()  # fail now, not after all has been shipped
    place = _prepare_work_directory(work)
    logs = find_machine_logs() if system_logs else []
    _print_plan(place, logs)

    def play(report_step: ReportStep) -> DemoResult:
        return DemoScenario(
            place,
            lines,
            report_step,
            machine_logs=logs,
            service=sink,
            login=login if sink else None,
        ).play()

    shows_bar = sys.stderr.isatty() and not as_json
    result = _play_with_bar(play) if shows_bar else play(_line_reporter())
    print(f"to remove what it left: rm -r {shlex.quote(str(place))}", file=sys.stderr)
    if as_json:
        emit_json(result.as_json())
    else:
        _print_result(result)
    return 0 if result.complete and not result.lost and not result.doubled else 1


def _print_plan(place: Path, logs: Sequence[str]) -> None:
    """Print which logs the demo will read, and which directory it works in."""
    print(f"work directory, kept afterwards: {place}", file=sys.stderr)
    if logs:
        print(
            f"besides the logs of 24 simulated applications, the demo reads {len(logs)} of this "
            "machine's own logs in /var/log; their lines end up in the work directory, too "
            "(turn this off with --no-system-logs)",
            file=sys.stderr,
        )


def _check_sink(uri: str | None) -> str | None:
    """Return *uri* if it is a stream at a service of this machine, or one of `SERVED_STORES`.

    Raises `click.BadParameter`.
    """
    if uri is None or uri in SERVED_STORES:
        return uri
    try:
        address = sink_address(uri)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if isinstance(address, StreamAddress) or not is_loopback(address.host):
        raise click.BadParameter(
            "the demo needs a streaming service on this machine, since it uses plain TCP: give "
            "pravega://127.0.0.1:9090/scope/stream, s2://127.0.0.1:8080/basin/stream, "
            "iggy://127.0.0.1:8090/stream/topic, s2 or iggy"
        )
    return uri


def _apart(sink: str) -> tuple[str, Login | None]:
    """Return *sink* without the login in it, and the login: no file of the demo has a password."""
    address = None if sink in SERVED_STORES else sink_address(sink)
    if not isinstance(address, IggyAddress) or not address.user:
        return sink, None
    return address.uri, Login(address.user, address.password)


def _prepare_work_directory(work: Path | None) -> Path:
    """Return an empty work directory; empties that of an earlier demo.

    Raises `click.UsageError` if *work* holds anything else.
    """
    if work is None:
        place = Path(tempfile.mkdtemp(prefix="logdrive-demo-"))
    else:
        place = work.resolve()
        if place.exists() and any(place.iterdir()):
            if not (place / _MARK).exists():
                raise click.UsageError(
                    f"{work} is neither empty nor an earlier demo's: give an empty directory"
                )
            shutil.rmtree(place)
        place.mkdir(parents=True, exist_ok=True)
    (place / _MARK).touch()
    return place


def _play_with_bar(play: Callable[[ReportStep], DemoResult]) -> DemoResult:
    """Return what *play* returns; a terminal shows its steps as a progress bar."""
    columns = (
        BarColumn(24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=1.0)
        result = play(lambda text, share: progress.update(task, description=text, completed=share))
        progress.update(task, description="done", completed=1.0)
    return result


def _line_reporter() -> ReportStep:
    """Return a step reporter for pipes and log files.

    It prints a line for each new step, and for each further tenth of a step that counts lines.
    """
    last_tenth = -1

    def report(text: str, share: float) -> None:
        nonlocal last_tenth
        tenth = int(share * 10)
        counts_lines = text[:1].isdigit()
        if not counts_lines or tenth != last_tenth:
            print(f"{share:4.0%}  {text}", file=sys.stderr, flush=True)
            last_tenth = tenth

    return report


def _print_result(result: DemoResult) -> None:
    """Print the result; the last line is the verdict."""
    print(
        f"{result.files} files of 24 applications and {result.machine_files} of this "
        f"machine's own logs, in {result.seconds} s"
    )
    store = ", the store once" if result.kills > 2 else ""
    print(f"killed with SIGKILL on the way: the receiver once, the agent once{store}")
    print(f"report: {result.report}")
    verdict = "complete" if result.complete else "NOT COMPLETE"
    print(
        f"{verdict}: {result.table_lines:,} lines, {result.table_bytes:,} bytes, "
        f"{result.sources} sources, "
        f"{result.lost:,} bytes lost, {result.doubled:,} lines duplicated"
    )
