"""`logdrive agent status`: what the running agent does, once or again and again."""

import contextlib
import sys
import time
from typing import Final, get_args

import click
import msgspec
import orjson
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agent.control.client import NoAgentError, ask_agent
from agent.control.messages import MOST_SOURCES, AgentStatus, SourceOrder, StatusRequest
from agent.status import STATES
from logdrive.cli.agent.source_table import rule_lines, source_table, sum_line, unreadable_lines
from logdrive.cli.agent.target import agent_target, control_socket, path_as_shown
from logdrive.cli.output import emit_json
from logdrive.printable import escape_unprintable

_SHOWN: Final = 20
_HEAD_LINES: Final = 6
"""Lines of the screen that the table of sources does not have."""


@click.command(
    short_help="Show what the running agent does: lag, rates, errors.",
    epilog="Example: logdrive agent status --watch --behind",
)
@agent_target
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    help="Seconds between.",
    show_default=True,
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object; with --watch, one a line."
)
@click.option(
    "--limit",
    type=click.IntRange(0, MOST_SOURCES),
    help=f"Sources to show.  [default: {_SHOWN}, or what fits]",
)
@click.option("--sort", type=click.Choice(get_args(SourceOrder)), default="lag", show_default=True)
@click.option(
    "--path",
    callback=path_as_shown,
    help="Only sources of this path, or pattern as in paths = [...].",
)
@click.option("--state", type=click.Choice(STATES), help="Only sources in this state.")
@click.option("--behind", is_flag=True, help="Only sources with unacknowledged lines.")
@click.option(
    "--problems",
    is_flag=True,
    help="Only sources with which something went wrong, absent ones, and files that can't be read.",
)
def status(
    config: str | None,
    socket: str | None,
    *,
    watch: bool,
    every: float,
    as_json: bool,
    limit: int | None,
    sort: SourceOrder,
    path: str | None,
    state: str | None,
    behind: bool,
    problems: bool,
) -> int:
    """Ask the running agent: for each source its path, position, size, lag, rate and last error.

    Shows the sources that are furthest behind. Exits with 1 where no agent runs.
    """
    target = control_socket(config, socket)
    request = StatusRequest(
        limit=_SHOWN if limit is None else limit,
        sort=sort,
        path=path,
        state=state,
        behind=behind,
        problems=problems,
    )
    if watch:
        with contextlib.suppress(KeyboardInterrupt):  # that is how it ends
            _watch(target, request, every, as_json=as_json, fits=limit is None)
        return 0
    answer = ask_status(target, request)
    if as_json:
        emit_json(msgspec.to_builtins(answer))
    else:
        _console().print(_shown(answer, problems=problems))
    return 0


def ask_status(target: str, request: StatusRequest) -> AgentStatus:
    """Return the status of the agent at the socket *target*. Raises `LogdriveError`."""
    answer = ask_agent(target, request).status
    if answer is None:
        raise NoAgentError(f"{target}: the agent's answer has no status")
    return answer


def _watch(target: str, request: StatusRequest, every: float, *, as_json: bool, fits: bool) -> None:
    """Show the status every *every* seconds; with *fits* as many sources as the screen has room."""
    if as_json:
        while True:
            sys.stdout.buffer.write(
                orjson.dumps(msgspec.to_builtins(ask_status(target, request))) + b"\n"
            )
            sys.stdout.flush()
            time.sleep(every)
    console = _console()
    if not console.is_terminal:
        while True:
            console.print(_shown_or_why_not(target, request))
            sys.stdout.flush()
            time.sleep(every)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if fits:
                room = max(1, console.height - _HEAD_LINES)
                request = msgspec.structs.replace(request, limit=min(room, MOST_SOURCES))
            live.update(_shown_or_why_not(target, request), refresh=True)
            time.sleep(every)


def _console() -> Console:
    """Return a console as wide as the terminal; files and pipes have room for long paths."""
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def _shown_or_why_not(target: str, request: StatusRequest) -> Group:
    """Return what the screen shows: the status, or that no agent answers, as one is restarted."""
    try:
        return _shown(ask_status(target, request), problems=request.problems)
    except NoAgentError as error:
        return Group(Text(escape_unprintable(str(error)), style="red"))


def _shown(status: AgentStatus, *, problems: bool) -> Group:
    """Return what the screen shows; *problems* says that they were asked for."""
    more = status.matching - len(status.sources) - len(status.unreadable_files)
    parts = [Text(line) for line in sum_line(status, problems=problems)]
    if status.problem:
        parts.append(Text(f"connection: {escape_unprintable(status.problem)}", style="red"))
    parts += [Text(line) for line in rule_lines(status)]
    table = source_table(status.sources) if status.matching else Text("no source matches")
    unreadable = [Text(line, style="red") for line in unreadable_lines(status)]
    return Group(*parts, table, *unreadable, *([Text(f"… and {more:,} more")] if more > 0 else []))
