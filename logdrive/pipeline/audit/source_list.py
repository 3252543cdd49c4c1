"""Lists the sources of an audit: as a table, or where a terminal is too narrow for their paths,
with two lines or more for each.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table

from logdrive.pipeline.audit.sources import AuditedSource
from logdrive.printable import escape_unprintable

_MOST = 60  # limit on the sources that are listed
_SHORT_ID, _ID = 8, 36  # characters
_PATH = 24  # characters of a path that fit a line of the table, at least
_INDENT = 2  # of the second line about a source


class _Row(NamedTuple):
    """What is shown of a source, as rich's markup."""

    id: str
    host: str
    path: str
    state: str
    last: str
    lines: str
    lost: str
    complete_from: str
    """Empty where all before *complete_to* was asked for."""
    complete_to: str
    heard: str


_HEADER = _Row(
    "id",
    "host",
    "path",
    "state",
    "last (bytes)",
    "lines",
    "lost (bytes)",
    "complete from",
    "complete to",
    "last heard",
)
_FIGURES = ("last", "lines", "lost", "complete_from", "complete_to")


def print_sources(console: Console, sources: Sequence[AuditedSource], *, is_terminal: bool) -> None:
    """List *sources*, up to a limit, with their whole paths.

    On a terminal nothing is wider than it.
    """
    shown = _chosen(sources)
    length = _unique_length([source.source for source in sources])
    rows = [_row(source, length) for source in shown]
    table = _table(rows)
    wide = Measurement.get(console, console.options.update(width=1 << 16), table).maximum
    longest = max((len(row.path) for row in rows), default=0)
    if not is_terminal:
        Console(file=console.file, width=wide, highlight=False).print(table)
    elif wide - max(0, longest - _PATH) <= console.width:
        console.print(table)
    else:
        _print_apart(console, rows)
    if len(sources) > len(shown):
        console.print(
            f"… and {len(sources) - len(shown):,} more sources with fewer events: --json lists all"
        )


def _chosen(sources: Sequence[AuditedSource]) -> list[AuditedSource]:
    """Return those that are listed, in their order: the ones that lack something before others."""
    most = sorted(
        sources, key=lambda source: (not (source.gaps or source.lost_bytes), -source.events)
    )[:_MOST]
    return sorted(most, key=lambda source: (source.host or "", source.path or "", source.heard))


def _row(source: AuditedSource, length: int) -> _Row:
    ended = f"ended: {source.ended}" if source.ended else source.state
    return _Row(
        source.source[:length],
        as_markup(source.host or ""),
        as_markup(source.path or ("(foreign peer)" if source.foreign else source.source)),
        as_markup(f"{ended}, end not seen" if source.lost_at_least else ended),
        "" if source.foreign else f"{source.last:,}",
        f"{source.lines:,}",
        f"[red]{source.lost_bytes:,}[/]" if source.lost_bytes else "0",
        f"{source.complete_from:,}" if source.complete_from else "",
        "" if source.foreign else f"{source.complete_to:,}",
        source.heard_at,
    )


def _table(rows: Sequence[_Row]) -> Table:
    parted = any(row.complete_from for row in rows)
    columns = [name for name in _Row._fields if parted or name != "complete_from"]
    table = Table(box=None, header_style="bold")
    for name in columns:
        table.add_column(
            getattr(_HEADER, name),
            justify="right" if name in _FIGURES else "left",
            no_wrap=name != "path",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(getattr(row, name) for name in columns))
    return table


def _print_apart(console: Console, rows: Iterable[_Row]) -> None:
    """Print each of *rows* with its path in a line of its own, or in several."""
    for row in rows:
        console.print(f"[bold]{row.path}[/]", overflow="fold")
        bytes_of = f"{row.last} bytes, " if row.last else ""
        since = f"from {row.complete_from} " if row.complete_from else ""
        complete = f"complete {since}to {row.complete_to}, " if row.complete_to else ""
        rest = (
            f"{row.id} on {row.host or '?'}, {row.state}: {bytes_of}{row.lines} lines, "
            f"{row.lost} bytes lost, {complete}last heard {row.heard}"
        )
        console.print(Padding(rest, (0, 0, 0, _INDENT)), overflow="fold")


def _unique_length(ids: Collection[str]) -> int:
    """Return the length of prefix that makes *ids* unique; `pipeline cat` accepts such prefixes."""
    return next(
        (
            length
            for length in range(_SHORT_ID, _ID)
            if len({one[:length] for one in ids}) == len(ids)
        ),
        _ID,
    )


def as_markup(text: str) -> str:
    """Return *text*, which files or peers chose, as the console takes it."""
    return escape(escape_unprintable(text))
