"""An audit for people: a table of sources, what is wrong, and one last line that says it all."""

import sys

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from logdrive.pipeline.audit import Source, Verdict

_MOST = 60  # sources shown; those with something to say come first


def tell(found: Verdict) -> None:
    """Print *found* on standard output."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    if found.by_source:
        console.print(_sources(found.by_source))
    for gap in found.gaps:
        length = (
            f"{'at least ' if not gap.end_exact else ''}{gap.lost_bytes:,} bytes lost"
            if gap.lost_bytes or not gap.end_exact
            else "not lost"
        )
        console.print(f"gap [{gap.start:,}, {gap.end:,}) of {escape(gap.path or gap.source)}: {escape(gap.reason)}, {length}")
    for fault in found.faults:
        console.print(
            f"batch {fault.batch} of {escape(fault.path or fault.source or '?')}: {fault.what} ({fault.found:,} of {fault.expected:,})"
        )
    for count, text in (
        (found.quarantined_events, "events are quarantined: see the column flag"),
        (found.overlapping_events, "events are whole though a part of them had come before"),
        (found.uncommitted_rows, "rows belong to a commit that is half done: the next run finishes it"),
    ):
        if count:
            console.print(f"{count:,} {text}")
    print(last_line(found))


def last_line(found: Verdict) -> str:
    """Return the verdict in one line."""
    lost = f"{'at least ' if found.lost_at_least else ''}{found.lost_bytes:,} bytes"
    lost += f" and {found.lost_events:,} lines" if found.lost_events else ""
    return (
        f"{'complete' if found.complete else 'NOT COMPLETE'}: {found.events:,} lines, {found.bytes:,} bytes, {found.sources:,} sources, "
        f"{lost} lost, {found.duplicate_events:,} lines doubled"
    )


def _sources(sources: list[Source]) -> Table:
    table = Table("host", "path", "state", "last", "lines", "lost", "heard of", box=None, header_style="bold")
    for column in (3, 4, 5):
        table.columns[column].justify = "right"
    shown = sorted(sources, key=lambda source: (not source.gaps, -source.events))[:_MOST]
    for source in sorted(shown, key=lambda source: (source.host or "", source.path or "")):
        lost = f"{'≥ ' if source.lost_at_least else ''}{source.lost_bytes:,}"
        table.add_row(
            escape(source.host or ""),
            escape(source.path or ("(foreign client)" if source.foreign else source.source)),
            f"ended: {source.ended}" if source.ended else source.state,
            "" if source.foreign else f"{source.last:,}",
            f"{source.events:,}",
            f"[red]{lost}[/]" if source.lost_bytes or source.lost_at_least else "0",
            source.heard_at,
        )
    if len(sources) > len(shown):
        table.add_row("", f"… and {len(sources) - len(shown):,} more, without gaps")
    return table
