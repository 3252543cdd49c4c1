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

from logdrive.address import ServiceAddress, StreamAddress
from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.letters.dismissing import DismissalOutcome, Dismissed, dismiss
from logdrive.cli.letters.letter_states import LetterState, state_of
from logdrive.cli.letters.replaying import ReplayOutcome, replay
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.runtime import Machine, run_program
from logdrive.cli.streams import (
    abort_on_stop,
    open_segments,
    open_service,
    parse_segmented_address,
    query_segments,
)
from logdrive.host.clock import SystemClock
from logdrive.model.dead_letters import (
    BY_CHARACTERS,
    DEAD_STREAM,
    WHY_CHARACTERS,
    Decision,
)
from logdrive.printable import escape_unprintable
from logdrive.services.pravega.reader.dead_letters import DeadLetter, read_dead_letters
from logdrive.services.pravega.reader.stream import FindNewSegments, ReadableSegment

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
    """List, print, replay and dismiss events of foreign peers that were too long for the stream.

    They are kept in a second stream beside that of the URI. Name each by its id, or by the
    beginning of its id.
    """


@dead_letters_group.command(
    "ls",
    short_help="List dead letters, with sizes, reasons and states.",
    epilog="Example: logdrive store dead-letters ls pravega://store:6000/logs/events --json",
)
@click.argument("uri")
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(uri: str, access: AccessOptions, as_json: bool) -> None:
    """List the dead letters of a stream: id, time received, sender, bytes, state, reason.

    The state is waiting, replayed or dismissed.
    """

    async def ask(
        letters: Sequence[DeadLetter], segments: Sequence[ReadableSegment]
    ) -> list[Listed]:
        return [(letter, await state_of(letter.id, segments)) for letter in letters]

    rows = [_row(*one) for one in _query_letters_and_stream(uri, access, ask)]
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
    short_help="Print dead letters as they were received.",
    epilog="Example: logdrive store dead-letters cat pravega://store:6000/logs/events 5f1d9b",
)
@click.argument("uri")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@access_options
def cat(uri: str, ids: tuple[str, ...], access: AccessOptions) -> None:
    """Print dead letters as they were received, all or those with the IDs: one JSON per line."""

    async def copy(letters: Sequence[DeadLetter]) -> None:
        for letter in _select_letters(letters, ids):
            if letter.whole:
                sys.stdout.buffer.write(await letter.read_payload() + b"\n")
        sys.stdout.buffer.flush()

    _query_letters(uri, access, copy)


@dead_letters_group.command(
    "replay",
    short_help="Append dead letters to their stream, each once.",
    epilog="Example: logdrive store dead-letters replay pravega://store:6000/logs/events --dry-run",
)
@click.argument("uri")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@access_options
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def replay_(
    uri: str, ids: tuple[str, ...], access: AccessOptions, dry_run: bool, as_json: bool
) -> None:
    """Append dead letters to their stream, where they become rows: all, or those with the IDs.

    Skips letters that were replayed or dismissed before, so this may be repeated. Exits with 1 if a
    letter can't be replayed: it is over 16 MiB as JSON, or not whole.
    """

    async def act(
        letters: Sequence[DeadLetter], segments: Sequence[ReadableSegment]
    ) -> list[Replayed]:
        chosen = _select_letters(letters, ids)
        return [(letter, await replay(letter, segments, dry_run=dry_run)) for letter in chosen]

    done = _query_letters_and_stream(uri, access, act, update=True)
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
    short_help="Mark dead letters as not wanted, so that audits can be complete.",
    epilog="Example: logdrive store dead-letters dismiss pravega://store:6000/logs/events 5f1d9b "
    '--reason "a core dump in a log line"',
)
@click.argument("uri")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Dismiss all waiting letters.")
@click.option(
    "--source",
    metavar="UUID",
    help="Dismiss all waiting letters of one source, whose id `ls --json` shows.",
)
@click.option("--reason", required=True, metavar="TEXT", help="Reason; audits and reports show it.")
@click.option("--by", metavar="NAME", help="Who decided it.  [default: user@host]")
@access_options
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
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
    """Mark dead letters as not wanted in any row; an audit still counts them, but may be complete.

    A note in the stream records who decided it, when and why. This can't be undone: a dismissed
    letter can still be printed, but no longer replayed. A letter whose bytes are gone can be
    dismissed by its whole ID, which the audit lists.
    """
    if (everything, source is not None, bool(ids)).count(True) != 1:
        raise click.UsageError("name the letters by IDs, --source UUID or --all")
    decision = Decision(
        _check_text("--by", by or _default_user(), BY_CHARACTERS),
        _check_text("--reason", reason, WHY_CHARACTERS),
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

    done = _query_letters_and_stream(uri, access, act, update=True)
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
        print("no dead letter is waiting")


def _to_dismiss(
    letters: Sequence[DeadLetter], ids: Sequence[str], source: str | None
) -> list[Dismissed]:
    """Return the letters that *ids* name; without ids those of *source*, or all.

    A whole id may name a letter whose bytes are gone.
    """
    # retention may have removed the letter, while an audit still counts it
    known = {letter.id for letter in letters}
    without_bytes = [name.lower() for name in ids if _is_uuid(name) and name.lower() not in known]
    named = [name for name in ids if name.lower() not in without_bytes]
    chosen = _select_letters(letters, named) if named or not ids else []
    with_bytes = [Dismissed.of(one) for one in chosen if source in (None, one.header.source)]
    return with_bytes + [Dismissed(name) for name in without_bytes]


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _check_text(option: str, text: str, most: int) -> str:
    if not text.strip() or len(text) > most or not text.isprintable():
        raise click.UsageError(f"{option} must be one line of 1 to {most} characters")
    return text


def _default_user() -> str:
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


def _query_letters(uri: str, access: AccessOptions, act: Any) -> Any:
    async def ask(segments: Sequence[ReadableSegment], later: FindNewSegments) -> Any:
        return await act(await read_dead_letters(segments))

    return query_segments(_dead_letter_address(parse_segmented_address(uri)), access, ask)


def _query_letters_and_stream(
    uri: str,
    access: AccessOptions,
    act: Callable[[Sequence[DeadLetter], Sequence[ReadableSegment]], Awaitable[T]],
    *,
    update: bool = False,
) -> T:
    """Return the result of *act* on the dead letters and on the segments of their stream.

    *update* asks for permission to append to the stream.
    """
    address = parse_segmented_address(uri)

    async def program(machine: Machine) -> T:
        async with (
            open_service(address, access, machine) as target,
            open_segments(_dead_letter_address(address), target, machine) as (dead, _),
            open_segments(address, target, machine, update=update) as (segments, _),
        ):
            return await abort_on_stop(machine, done(dead, segments))

    async def done(dead: Sequence[ReadableSegment], segments: Sequence[ReadableSegment]) -> T:
        try:
            return await act(await read_dead_letters(dead), segments)
        except ValueError as error:
            raise click.ClickException(str(error)) from error

    configure_logging("warning")
    return run_program(program)


def _dead_letter_address(
    address: StreamAddress | ServiceAddress,
) -> StreamAddress | ServiceAddress:
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


def _select_letters(letters: Sequence[DeadLetter], ids: Sequence[str]) -> list[DeadLetter]:
    """Return the letters that *ids* name, or all if there are no ids.

    Raises `ClickException` if an id names no letter, or several.
    """
    for name in ids:
        count = sum(letter.id.startswith(name) for letter in letters)
        if count != 1:  # none, or the beginning is too short to tell them apart
            raise click.ClickException(f"{name} is the beginning of {count} ids: see `ls`")
    return [letter for letter in letters if not ids or any(map(letter.id.startswith, ids))]
