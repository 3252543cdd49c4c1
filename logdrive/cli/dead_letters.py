"""`logdrive store dead-letters …`: list, print and replay the events that are in no row."""

import sys
from collections.abc import Sequence
from dataclasses import replace as replaced
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.output import emit_json, escaped, set_up_logging
from logdrive.cli.replaying import ReplayOutcome, replay
from logdrive.cli.runtime import Machine
from logdrive.cli.runtime import run as run_program
from logdrive.cli.streams import (
    AnyAddress,
    address_of,
    reached,
    segments_at,
    unless_stopped,
    with_segments,
)
from logdrive.model.pieces import DEAD_STREAM
from logdrive.services.pravega.reader.dead_letters import DeadLetter, dead_letters
from logdrive.services.pravega.reader.stream import Later, ReadableSegment

_FAILED = 1


@click.group(
    "dead-letters",
    short_help="List, print and replay events that are in no row.",
    epilog="Example: logdrive store dead-letters ls file:///var/lib/logdrive/store#logs/events",
)
def dead_letters_group() -> None:
    """Events of foreign clients that were too long to be stored with the others.

    They are in a stream beside that of the URI. Each is told by its id, or the beginning of it.
    """


@dead_letters_group.command(
    "ls",
    short_help="List them, with sizes and reasons.",
    epilog="Example: logdrive store dead-letters ls pravega://store:6000/logs/events --json",
)
@click.argument("uri")
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(uri: str, access: AccessOptions, as_json: bool) -> None:
    """List the dead letters of a stream: id, when it came, from whom, bytes, reason."""
    rows = _with_letters(uri, access, _rows)
    if as_json:
        emit_json({"uri": uri, "dead_letters": rows})
        return
    table = Table("id", "received", "from", "bytes", "reason", box=None)
    table.columns[3].justify = "right"
    for row in rows:
        whole = "" if row["whole"] else " (not whole: its client sent it again)"
        sender = escaped(f"{row['peer'].get('address', '')} {row['peer'].get('identity', '')}")
        what = escaped(row["reason"]) + whole
        table.add_row(row["id"], row["received"], sender, f"{row['bytes']:,}", what)
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

    A letter that was replayed before is left out, so this may be repeated. Ends with 1 where one
    can't be: over 16 MiB as JSON, or not whole.
    """
    address = address_of(uri)

    async def program(machine: Machine) -> list[tuple[DeadLetter, ReplayOutcome]]:
        async with (
            reached(address, access, machine) as target,
            segments_at(_beside(address), target, machine) as (dead, _),
            segments_at(address, target, machine, update=True) as (segments, _),
        ):
            return await unless_stopped(machine, _replayed(dead, segments, ids, dry_run))

    set_up_logging("warning")
    done = run_program(program)
    if as_json:
        rows = [
            {"id": letter.id, "bytes": letter.size, "outcome": outcome} for letter, outcome in done
        ]
        emit_json({"uri": uri, "dry_run": dry_run, "dead_letters": rows})
    else:
        for letter, outcome in done:
            print(f"{letter.id}: {outcome}{_remedy(outcome)}")
    sys.exit(_FAILED if any(outcome in ("too long", "not whole") for _, outcome in done) else 0)


async def _replayed(
    dead: Sequence[ReadableSegment],
    segments: Sequence[ReadableSegment],
    ids: Sequence[str],
    dry_run: bool,
) -> list[tuple[DeadLetter, ReplayOutcome]]:
    chosen = _chosen(await dead_letters(dead), ids)
    try:
        return [(letter, await replay(letter, segments, dry_run=dry_run)) for letter in chosen]
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _remedy(outcome: ReplayOutcome) -> str:
    if outcome == "too long":
        return ", over 16 MiB: see it with `logdrive store dead-letters cat`"
    if outcome == "not whole":
        return ": it was never acknowledged, and its client sent it again"
    return ""


def _with_letters(uri: str, access: AccessOptions, act: Any) -> Any:
    async def ask(segments: Sequence[ReadableSegment], later: Later) -> Any:
        return await act(await dead_letters(segments))

    return with_segments(_beside(address_of(uri)), access, ask)


def _beside(address: AnyAddress) -> AnyAddress:
    return replaced(address, stream=address.stream + DEAD_STREAM)


def _shown(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"


async def _rows(letters: Sequence[DeadLetter]) -> list[dict[str, Any]]:
    return [
        {
            "id": letter.id,
            "received": _shown(letter.header.received),
            "source": letter.header.source,
            "peer": msgspec.json.decode(letter.header.peer),
            "bytes": letter.size,
            "reason": letter.reason,
            "whole": letter.whole,
        }
        for letter in letters
    ]


def _chosen(letters: Sequence[DeadLetter], ids: Sequence[str]) -> list[DeadLetter]:
    """Return the letters that *ids* name, all of them without any. Raises `ClickException`."""
    for name in ids:
        count = sum(letter.id.startswith(name) for letter in letters)
        if count != 1:
            raise click.ClickException(f"{name} is the beginning of {count} ids: see `ls`")
    return [letter for letter in letters if not ids or any(map(letter.id.startswith, ids))]
