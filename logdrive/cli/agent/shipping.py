"""`logdrive agent ship`: send files once, with a progress bar, until all is acknowledged."""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final, Literal, get_args

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from agent.config.files import InputTable
from agent.config.lines import MultilineTable, TracePreset
from agent.config.output import DialectSetting, OutputTable
from agent.ship import Shipped, output_for
from agent.ship import ship as ship_files
from agent.sources.identity import machine_agent_id
from logdrive.address import is_loopback, peer_address
from logdrive.cli.output import configure_logging, emit_json, print_error
from logdrive.cli.runtime import PACKING_THREADS, Machine, run_program
from logdrive.errors import RejectedError
from logdrive.host.disk import SystemDisk
from logdrive.net.settings import ClientTlsConfig

_PEM = click.Path(exists=True, dir_okay=False, resolve_path=True)
_LASTING_SECONDS: Final = 3.0
"""A reason why nothing can be sent is told once it has lasted so long: most end the run sooner, and
are told then.
"""


@click.command(
    short_help="Deliver files as they are now, then exit.",
    epilog="Example: logdrive agent ship /var/log/app/*.log --to logs:5044 --ca ca.pem --cert "
    "client.pem --key client.key",
)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE...",
)
@click.option(
    "--to",
    "receiver",
    required=True,
    metavar="HOST:PORT",
    help="Receiver to send to; the default port is 5044.",
)
@click.option(
    "--ca", type=_PEM, help="PEM file with the CA that signed the receiver's certificate."
)
@click.option("--cert", type=_PEM, help="PEM file with your client certificate.")
@click.option("--key", type=_PEM, help="PEM file with its private key.")
@click.option(
    "--server-name",
    metavar="NAME",
    help="Name to expect in the receiver's certificate, if it is not HOST.",
)
@click.option(
    "--plain",
    is_flag=True,
    help="Plain TCP without encryption. Implied for a loopback address.",
)
@click.option(
    "--id",
    "agent_id",
    metavar="NAME",
    help="Agent id that the files belong to; default: derived from this machine's id.",
)
@click.option(
    "--dialect",
    type=click.Choice(get_args(DialectSetting)),
    default="logdrive/1",
    show_default=True,
    help="Protocol to speak. auto: logdrive/1 if the receiver speaks it, else plain Lumberjack, "
    "with a warning.",
)
@click.option(
    "--encoding",
    default="utf-8",
    show_default=True,
    metavar="NAME",
    help="Encoding of the files, as in agent.toml: utf-16, latin-1, shift_jis ...",
)
@click.option(
    "--multiline",
    type=click.Choice(get_args(TracePreset)),
    help="Lines of this language's stack traces are one event with the line before them.",
)
@click.option(
    "--give-up",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Seconds without progress after which to give up.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def ship(
    files: tuple[str, ...],
    receiver: str,
    ca: str | None,
    cert: str | None,
    key: str | None,
    server_name: str | None,
    plain: bool,
    agent_id: str | None,
    dialect: DialectSetting,
    encoding: str,
    multiline: TracePreset | None,
    give_up: float,
    as_json: bool,
) -> int:
    """Deliver FILEs as they are now, and exit once everything is acknowledged.

    A second run sends only what was added since, if the receiver's store keeps positions. It sends
    everything again with lumberjack/2 and lumberjack/1, and where the receiver appends to S2 or
    Iggy: there no positions are kept, and this command has no checkpoint. Compressed files are
    refused: unpack them first.
    """
    configure_logging("warning")
    tls = _tls_settings(receiver, ca, cert, key, server_name, plain)
    if dialect == "auto" and tls == "off":
        raise click.UsageError(
            "--dialect auto needs TLS, whose ALPN says what the receiver speaks: give --ca, "
            "or name one dialect"
        )
    output = output_for(receiver, tls, dialect=dialect)
    settings = _lines_of(encoding, multiline)
    name, started = agent_id or _machine_name(), time.monotonic()
    with _show_progress(quiet=as_json) as show:
        shipped = _deliver(files, settings, output, name, give_up, show)
    _print_outcome(shipped, time.monotonic() - started, as_json=as_json)
    return 0 if shipped.complete else 1


def _lines_of(encoding: str, multiline: TracePreset | None) -> InputTable:
    """Return how the files are cut into events."""
    try:
        return InputTable(
            paths=["/"],
            encoding=encoding,
            multiline=None if multiline is None else MultilineTable(preset=multiline),
        )
    except ValueError as error:
        raise click.BadParameter(
            str(error).removeprefix("encoding: "), param_hint="--encoding"
        ) from error


def _deliver(
    files: Sequence[str],
    settings: InputTable,
    output: OutputTable,
    agent: str,
    give_up_seconds: float,
    show: Callable[[Shipped], None] | None,
) -> Shipped:
    """Ship *files* and return what was delivered. Raises `RejectedError`, with a hint at TLS."""

    async def program(machine: Machine) -> Shipped:
        return await ship_files(
            files,
            output,
            labels=settings,
            host=machine,
            agent=agent,
            give_up_seconds=give_up_seconds,
            progress=show,
            stop=machine.stop,
        )

    try:
        return run_program(program, threads=PACKING_THREADS)
    except RejectedError as error:
        hint = _tls_hint(output, error)
        between = "" if not hint else " " if str(error).endswith("?") else "; "
        raise RejectedError(f"{error}{between}{hint}") from error


def _print_outcome(shipped: Shipped, seconds: float, *, as_json: bool) -> None:
    if as_json:
        emit_json(asdict(shipped) | _resource_usage(seconds))
    else:
        # without it "0 bytes sent" would look like a failure
        known = (
            "; the receiver had received all of it before"
            if shipped.complete and shipped.total_bytes and not shipped.bytes
            else ""
        )
        print(
            f"{shipped.events:,} lines, {shipped.bytes:,} bytes of {shipped.files} files "
            f"sent and acknowledged in {seconds:.1f} s{known}"
        )
    if not shipped.complete:
        because = f" ({shipped.problem})" if shipped.problem else ""
        print_error(
            f"interrupted: {shipped.left:,} bytes are left{because}; run it again to send them"
        )


def _tls_settings(
    receiver: str,
    ca: str | None,
    cert: str | None,
    key: str | None,
    server_name: str | None,
    plain: bool,
) -> ClientTlsConfig | Literal["off"]:
    try:
        host, _ = peer_address(receiver)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    if ca is not None:
        if plain:
            raise click.UsageError("--plain and --ca contradict each other")
        if (cert is None) != (key is None):
            raise click.UsageError("--cert and --key go together")
        return ClientTlsConfig(ca=ca, cert=cert, key=key, server_name=server_name)
    if cert is not None or key is not None:
        raise click.UsageError(
            "--cert and --key need --ca, the CA that signed the receiver's certificate"
        )
    if not plain and not is_loopback(host):
        raise click.UsageError(
            f"give --ca, --cert and --key for TLS to {host}, or --plain for none"
        )
    return "off"


def _tls_hint(output: OutputTable, error: RejectedError) -> str:
    """Return which TLS options may be missing or superfluous; "" if they are not the cause."""
    if output.tls == "off":
        return "does it require TLS? give --ca, --cert and --key"
    if output.tls.cert is None:
        return "does it require a client certificate? give --cert and --key"
    if error.sure:  # the error itself names the cause
        return ""
    return (
        "does it expect plain TCP? leave out --ca, --cert and --key, and give --plain unless it "
        "is on a loopback address"
    )


def _machine_name() -> str:
    """Return the agent id: derived from the machine's id, else the host name.

    Several containers may have the same host name, hence the warning.
    """
    try:
        return machine_agent_id(SystemDisk())
    except OSError:
        name = os.uname().nodename
        print_error(
            f"this machine has no machine id: using its host name {name!r} as agent id; give --id "
            "if several machines share that name"
        )
        return name


def _resource_usage(seconds: float) -> dict[str, Any]:
    """Return the costs of the run: wall and CPU seconds, and peak memory in bytes."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_bytes": usage.ru_maxrss * 1024,
    }


@contextmanager
def _show_progress(*, quiet: bool) -> Iterator[Callable[[Shipped], None] | None]:
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _print_problems()
    else:
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        problem = TextColumn("{task.description}", markup=False)
        console = Console(stderr=True)
        with Progress("shipping", *columns, problem, console=console) as progress:
            task = progress.add_task("", total=None)
            yield lambda shipped: progress.update(
                task,
                total=shipped.total_bytes,
                completed=max(0, shipped.total_bytes - shipped.left),
                description=shipped.problem,
            )


def _print_problems() -> Callable[[Shipped], None]:
    """Return what prints why nothing can be delivered, once for each reason that lasts."""
    since = dict[str, float]()  # when each reason was seen first (monotonic, s)
    told = {""}

    def show(shipped: Shipped) -> None:
        problem, now = shipped.problem, time.monotonic()
        if problem not in told and now - since.setdefault(problem, now) >= _LASTING_SECONDS:
            told.add(problem)
            print_error(f"nothing can be sent yet, trying on: {problem}")

    return show
