"""`logdrive store dead-letters …`: list, print, replay and dismiss events that are in no row."""

import getpass
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace as replaced
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import click
import msgspec
from rich.console import Console
from rich.table import Table

from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.dismissing import DismissalOutcome, Dismissed, dismiss
from logdrive.cli.letter_states import LetterState, state_of
from logdrive.cli.output import configure_logging, emit_json, escape_unprintable
from logdrive.cli.replaying import ReplayOutcome, replay
from logdrive.cli.runtime import Machine, run_program
from logdrive.cli.streams import (
    AnyAddress,
    address_of,
    reached,
    segments_at,
    unless_stopped,
    with_segments,
)
from logdrive.host.clock import SystemClock
from logdrive.model.dead_letters import (
    BY_CHARACTERS,
    DEAD_STREAM,
    WHY_CHARACTERS,
    Decision,
)
from logdrive.services.pravega.reader.dead_letters import DeadLetter, dead_letters
from logdrive.services.pravega.reader.stream import Later, ReadableSegment

_FAILED = 1

T = TypeVar("T")
Listed = tuple[DeadLetter, LetterState]
Replayed = tuple[DeadLetter, ReplayOutcome]
DismissedOne = tuple[Dismissed, DismissalOutcome]


@click.group(
    "dead-letters",
    short_help="List, print, replay and dismiss events that are in no row.",
    epilog="Example: logdrive store dead-letters ls file:///var/lib/logdrive/store#logs/events",
)
def dead_letters_group() -> None:
    """Events of foreign clients that were too long to be stored with the others.

    They are in a stream beside that of the URI. Each is told by its id, or the beginning of it.
    """


@dead_letters_group.command(
    "ls",
    short_help="List them, with sizes, reasons and states.",
    epilog="Example: logdrive store dead-letters ls pravega://store:6000/logs/events --json",
)
@click.argument("uri")
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(uri: str, access: AccessOptions, as_json: bool) -> None:
    """List the dead letters of a stream: id, when it came, from whom, bytes, state, reason.

    The state is waiting, replayed or dismissed.
    """

    async def ask(
        letters: Sequence[DeadLetter], segments: Sequence[ReadableSegment]
    ) -> list[Listed]:
        return [(letter, await state_of(letter.id, segments)) for letter in letters]

    rows = [_row(*one) for one in _with_both(uri, access, ask)]
    if as_json:
        emit_json({"uri": uri, "dead_letters": rows})
        return
    if not rows:
        print("no dead letters")
        return
    table = Table("id", "received", "from", "bytes", "state", "reason", box=None)
    table.columns[3].justify = "right"
    for row in rows:
        whole = "" if row["whole"] else " (not whole: its client sent it again)"
        sender = escape_unprintable(
            f"{row['peer'].get('address', '')} {row['peer'].get('identity', '')}"
        )
        what = escape_unprintable(row["reason"]) + whole
        table.add_row(row["id"], row["received"], sender, f"{row['bytes']:,}", row["state"], what)
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(table)


@dead_letters_group.command(
    "cat",
    short_help="Print them as they came.",
    epilog="Example: logdrive store dead-letters cat pravega://store:6000/logs/events 5f1d9b",
)
@click.argument("uri")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@access_options
def cat(uri: str, ids: tuple[str, ...], access: AccessOptions) -> None:
    """Print dead letters, all or those named, as they came: JSON, one a line."""

    async def copy(letters: Sequence[DeadLetter]) -> None:
        for letter in _chosen(letters, ids):
            if letter.whole:
                sys.stdout.buffer.write(await letter.payload() + b"\n")
        sys.stdout.buffer.flush()

    _with_letters(uri, access, copy)


@dead_letters_group.command(
    "replay",
    short_help="Append them to their stream, each once.",
    epilog="Example: logdrive store dead-letters replay pravega://store:6000/logs/events --dry-run",
)
@click.argument("uri")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@access_options
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def replay_(
    uri: str, ids: tuple[str, ...], access: AccessOptions, dry_run: bool, as_json: bool
) -> None:
    """Append dead letters, all or those named, to their stream, where they become rows.

    A letter that was replayed or dismissed before is left out, so this may be repeated. Ends with 1
    where one can't be: over 16 MiB as JSON, or not whole.
    """

    async def act(
        letters: Sequence[DeadLetter], segments: Sequence[ReadableSegment]
    ) -> list[Replayed]:
        chosen = _chosen(letters, ids)
        return [(letter, await replay(letter, segments, dry_run=dry_run)) for letter in chosen]

    done = _with_both(uri, access, act, update=True)
    if as_json:
        rows = [
            {"id": letter.id, "bytes": letter.size, "outcome": outcome} for letter, outcome in done
        ]
        emit_json({"uri": uri, "dry_run": dry_run, "dead_letters": rows})
    else:
        for letter, outcome in done:
            print(f"{letter.id}: {outcome}{_remedy(outcome)}")
        if not done:
            print("no dead letters")
    sys.exit(_FAILED if any(outcome in ("too long", "not whole") for _, outcome in done) else 0)


@dead_letters_group.command(
    "dismiss",
    short_help="Say of some that no row is wanted.",
    epilog="Example: logdrive store dead-letters dismiss pravega://store:6000/logs/events 5f1d9b "
    '--reason "a core dump in a log line"',
)
@click.argument("uri")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All that wait, instead of those named.")
@click.option(
    "--source", metavar="UUID", help="All that wait of one source, as `ls --json` has it."
)
@click.option("--reason", required=True, metavar="TEXT", help="Why; audits and reports show it.")
@click.option("--by", metavar="NAME", help="Who decided it.  [default: user@host]")
@access_options
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def dismiss_(
    uri: str,
    ids: tuple[str, ...],
    everything: bool,
    source: str | None,
    reason: str,
    by: str | None,
    access: AccessOptions,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say of dead letters that no row is wanted: an audit then counts them, and may be complete.

    A note in the stream keeps who decided it, when and why. It is for good: a dismissed letter can
    still be printed, and no longer be replayed. A whole ID of a letter whose bytes are gone, as an
    audit lists it, can be dismissed, too.
    """
    if (everything, source is not None, bool(ids)).count(True) != 1:
        raise click.UsageError("name the letters: some IDs, --source UUID, or --all")
    decision = Decision(
        _text("--by", by or _user(), BY_CHARACTERS), _text("--reason", reason, WHY_CHARACTERS)
    )

    async def act(
        letters: Sequence[DeadLetter], segments: Sequence[ReadableSegment]
    ) -> list[DismissedOne]:
        now = SystemClock().now_ms()
        return [
            (one, await dismiss(one, segments, decision, now_ms=now, dry_run=dry_run))
            for one in _to_dismiss(letters, ids, source)
            if (not everything and source is None) or await state_of(one.id, segments) == "waiting"
        ]

    done = _with_both(uri, access, act, update=True)
    if as_json:
        rows = [{"id": one.id, "bytes": one.size, "outcome": outcome} for one, outcome in done]
        emit_json({"uri": uri, "dry_run": dry_run, "dead_letters": rows})
        return
    for one, outcome in done:
        print(
            f"{one.id}: "
            f"{outcome}{'' if one.size else ' (its bytes are not among the dead letters)'}"
        )
    if not done:
        print("no dead letter waits")


def _to_dismiss(
    letters: Sequence[DeadLetter], ids: Sequence[str], source: str | None
) -> list[Dismissed]:
    """Return the letters that *ids* name; without any all of *source*, or all.

    A whole id may be of a letter whose bytes are gone.
    """
    known = {letter.id for letter in letters}
    gone = [name.lower() for name in ids if _is_uuid(name) and name.lower() not in known]
    named = [name for name in ids if name.lower() not in gone]
    chosen = _chosen(letters, named) if named or not ids else []
    there = [Dismissed.of(one) for one in chosen if source in (None, one.header.source)]
    return there + [Dismissed(name) for name in gone]


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _text(option: str, text: str, most: int) -> str:
    if not text.strip() or len(text) > most or not text.isprintable():
        raise click.UsageError(f"{option} takes one line of 1 to {most} characters")
    return text


def _user() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user id without a name
        return f"uid {os.getuid()}@{socket.gethostname()}"


def _remedy(outcome: ReplayOutcome) -> str:
    if outcome == "too long":
        return ", over 16 MiB: see it with `logdrive store dead-letters cat`, or `dismiss` it"
    if outcome == "not whole":
        return ": it was never acknowledged, and its client sent it again"
    return ""


def _with_letters(uri: str, access: AccessOptions, act: Any) -> Any:
    async def ask(segments: Sequence[ReadableSegment], later: Later) -> Any:
        return await act(await dead_letters(segments))

    return with_segments(_beside(address_of(uri)), access, ask)


def _with_both(
    uri: str,
    access: AccessOptions,
    act: Callable[[Sequence[DeadLetter], Sequence[ReadableSegment]], Awaitable[T]],
    *,
    update: bool = False,
) -> T:
    """Return what *act* makes of the dead letters and of their stream's segments.

    *update*: it appends to the stream.
    """
    address = address_of(uri)

    async def program(machine: Machine) -> T:
        async with (
            reached(address, access, machine) as target,
            segments_at(_beside(address), target, machine) as (dead, _),
            segments_at(address, target, machine, update=update) as (segments, _),
        ):
            return await unless_stopped(machine, done(dead, segments))

    async def done(dead: Sequence[ReadableSegment], segments: Sequence[ReadableSegment]) -> T:
        try:
            return await act(await dead_letters(dead), segments)
        except ValueError as error:
            raise click.ClickException(str(error)) from error

    configure_logging("warning")
    return run_program(program)


def _beside(address: AnyAddress) -> AnyAddress:
    return replaced(address, stream=address.stream + DEAD_STREAM)


def _row(letter: DeadLetter, state: LetterState) -> dict[str, Any]:
    received = datetime.fromtimestamp(letter.header.received / 1000, UTC)
    return {
        "id": letter.id,
        "received": f"{received:%Y-%m-%d %H:%M:%S}",
        "source": letter.header.source,
        "peer": msgspec.json.decode(letter.header.peer),
        "bytes": letter.size,
        "state": state,
        "reason": letter.reason,
        "whole": letter.whole,
    }


def _chosen(letters: Sequence[DeadLetter], ids: Sequence[str]) -> list[DeadLetter]:
    """Return the letters that *ids* name, all of them without any. Raises `ClickException`."""
    for name in ids:
        count = sum(letter.id.startswith(name) for letter in letters)
        if count != 1:
            raise click.ClickException(f"{name} is the beginning of {count} ids: see `ls`")
    return [letter for letter in letters if not ids or any(map(letter.id.startswith, ids))]
