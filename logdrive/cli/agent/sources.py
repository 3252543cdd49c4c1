"""`logdrive agent source …`: the sources of the running agent, and what operators do with them."""

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import msgspec

from agent.control.client import NoAgentError, ask_agent
from agent.control.messages import (
    MOST_SOURCES,
    Change,
    ChangeRequest,
    ForgetRequest,
    ResendRequest,
    SkipRequest,
    StatusRequest,
)
from agent.status import STATES
from logdrive.cli.agent.status import ask_status
from logdrive.cli.agent.target import agent_target, control_socket, path_as_shown, source_as_shown
from logdrive.cli.output import emit_json
from logdrive.printable import escape_unprintable

_LISTED: Final = 1000

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(
    short_help="List sources of the running agent; skip, send again or forget one.",
    epilog="Example: logdrive agent source list --all",
)
def source() -> None:
    """List the sources of the running agent, and change one: a source is one life of one file.

    SOURCE is its path, or the first six or more characters of its origin id (./abc123 is a file).
    Rotated files keep their first path: to skip and resend, it means the file that stands there
    now.
    """


@source.command(
    "list",
    short_help="List sources with their origin ids.",
    epilog="Example: logdrive agent source list --path '/var/log/nginx/*'",
)
@agent_target
@click.option(
    "--path",
    callback=path_as_shown,
    help="Only sources of this path, or pattern as in paths = [...].",
)
@click.option("--state", type=click.Choice(STATES), help="Only sources in this state.")
@click.option(
    "--all",
    "gone",
    is_flag=True,
    help="Those too that have ended, or whose file can't be looked for.",
)
@click.option("--limit", type=click.IntRange(0, MOST_SOURCES), default=_LISTED, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_sources(
    config: str | None,
    socket: str | None,
    *,
    path: str | None,
    state: str | None,
    gone: bool,
    limit: int,
    as_json: bool,
) -> int:
    """List sources by path: origin id, state, acknowledged position, size and path."""
    request = StatusRequest(limit=limit, sort="path", path=path, state=state, gone=gone)
    answer = ask_status(control_socket(config, socket), request)
    if as_json:
        sources = msgspec.to_builtins(answer.sources)
        emit_json({"matching": answer.matching, "sources": sources})
        return 0
    for one in answer.sources:
        click.echo(
            f"{one.origin}  {one.state:<8} {one.position:>15,} of {one.seen:>15,}  "
            f"{escape_unprintable(one.path)}"
            + (f" (at {escape_unprintable(one.name)})" if one.name else "")
        )
    if not answer.matching:
        hint = "" if gone else ": --all lists ended and absent ones, too"
        click.echo(f"no source matches{hint}", err=True)
    if answer.matching > len(answer.sources):
        click.echo(f"… and {answer.matching - len(answer.sources):,} more: see --limit", err=True)
    return 0


def _change_options(command: Command) -> Command:
    for option in (
        click.option("--yes", is_flag=True, help="Do it without asking."),
        click.option("--dry-run", is_flag=True, help="Only say what would be done."),
        agent_target,
        click.argument("name", metavar="SOURCE", callback=source_as_shown),
    ):
        command = option(command)
    return command


@source.command(
    short_help="Leave out what a source has not sent yet.",
    epilog="Example: logdrive agent source skip /var/log/huge.log",
)
@_change_options
def skip(name: str, config: str | None, socket: str | None, *, dry_run: bool, yes: bool) -> int:
    """Leave out what SOURCE has not sent yet, up to the end of its last whole line.

    A gap record says which bytes, so the audit counts them as skipped and not as lost.
    """
    return _change(
        control_socket(config, socket), SkipRequest(source=name), dry_run=dry_run, yes=yes
    )


@source.command(
    short_help="Send a file again from its beginning.",
    epilog="Example: logdrive agent source resend /var/log/app.log --dry-run",
)
@_change_options
def resend(name: str, config: str | None, socket: str | None, *, dry_run: bool, yes: bool) -> int:
    """Send the file of SOURCE again from its beginning, as another source.

    What was sent before is then there twice. The first source ends as "resent", so the audit takes
    it for no duplicate.
    """
    return _change(
        control_socket(config, socket), ResendRequest(source=name), dry_run=dry_run, yes=yes
    )


@source.command(
    short_help="Give up a source whose file is gone, or that no input names.",
    epilog="Example: logdrive agent source forget 3f2a91c0",
)
@_change_options
def forget(name: str, config: str | None, socket: str | None, *, dry_run: bool, yes: bool) -> int:
    """Give up SOURCE, whose file is moved or can't be looked for, or that no input names any more.

    A gap record says which bytes were not sent; the audit counts them as lost. One that has ended
    leaves the checkpoint before its time.
    """
    return _change(
        control_socket(config, socket), ForgetRequest(source=name), dry_run=dry_run, yes=yes
    )


def _change(target: str, request: ChangeRequest, *, dry_run: bool, yes: bool) -> int:
    """Show what *request* does, ask, and have it done."""
    planned = _ask(target, msgspec.structs.replace(request, dry_run=True))
    click.echo(escape_unprintable(planned.text))
    if dry_run:
        click.echo("dry run: nothing was changed")
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody can be asked here: write --yes to do it")
        click.confirm("Go on?", abort=True)
    # the very source that was shown, though its path may be another's by now
    done = _ask(target, msgspec.structs.replace(request, source=planned.origin))
    click.echo(f"done: {done.action} of {escape_unprintable(done.path)} (source {done.origin})")
    if not done.durable:
        click.echo(
            "but the checkpoint could not be written since, as the agent's log says: an agent that "
            "is killed before it is does not know of this",
            err=True,
        )
    return 0


def _ask(target: str, request: ChangeRequest) -> Change:
    """Return what the agent answers to a change."""
    answer = ask_agent(target, request).change  # type: ignore[arg-type]  # one of `Request`
    if answer is None:
        raise NoAgentError(f"{target}: the agent's answer says nothing of the change")
    return answer
