"""Tables of an agent's sources, and its figures in a few lines."""

from collections.abc import Iterable, Sequence

from rich.markup import escape
from rich.table import Table

from agent.control.messages import AgentStatus
from agent.status import SourceStatus
from logdrive.model.units import KIB
from logdrive.printable import escape_unprintable

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def sum_line(status: AgentStatus, *, problems: bool) -> Iterable[str]:
    """Yield the figures of the whole agent, in two lines; *problems* says that these are shown."""
    where = f"connected to {status.host}" if status.host else "not connected"
    yield (
        f"agent {status.agent} {status.phase} for {duration(status.uptime_seconds)}, {where}; "
        f"version {status.version}"
    )
    unreadable = f" ({status.unreadable:,} can't be read)" if status.unreadable else ""
    gone = f", {status.absent:,} absent" if status.absent else ""
    hint = "" if problems or not (unreadable or gone) else "; --problems names them"
    yield (
        f"{status.files:,} files{unreadable}, {status.living:,} sources, {status.behind:,} behind "
        f"by {size(status.lag_bytes)} and {duration(status.lag_seconds)}; {size(status.rate)}/s; "
        f"{status.events:,} events acknowledged, {size(status.bytes)}{gone}{hint}"
    )


def source_table(sources: Sequence[SourceStatus]) -> Table:
    """Return a table of *sources*, in their order."""
    names = ["path", "state", "position", "size", "lag", "waits", "rate"]
    with_formats = any(source.format for source in sources)
    with_cuts = any(source.truncated for source in sources)
    columns = [*names, *(["format"] if with_formats else []), *(["truncated"] if with_cuts else [])]
    columns.append("last error")
    table = Table(*columns, box=None, header_style="bold")
    # the ends of paths tell them apart
    table.columns[0].overflow = "fold"
    for column in range(2, 7):
        table.columns[column].justify = "right"
        table.columns[column].no_wrap = True
    for source in sources:
        table.add_row(
            _text(source.path) + (f" [dim](at {_text(source.name)})[/]" if source.name else ""),
            source.state,
            f"{source.position:,}",
            f"{source.seen:,}",
            f"{source.lag_bytes:,}" if source.lag_bytes else "",
            duration(source.lag_seconds) if source.lag_seconds else "",
            f"{size(source.rate)}/s" if source.rate else "",
            *([_format(source)] if with_formats else []),
            *([_events(source.truncated)] if with_cuts else []),
            f"[red]{_text(source.problem)}[/]" if source.problem else "",
        )
    return table


def unreadable_lines(status: AgentStatus) -> Iterable[str]:
    """Yield the files that can't be read and have no source, a line each."""
    for file in status.unreadable_files:
        path, problem = escape_unprintable(file.path), escape_unprintable(file.problem)
        yield f"{path} can't be read: {problem}"


def rule_lines(status: AgentStatus) -> Iterable[str]:
    """Yield what each processor did, a line each."""
    for rule in status.rules:
        name = f"{rule.input}.processor[{rule.processor}] {rule.action} {rule.rule}".rstrip()
        places = f" in {rule.matches:,} places" if rule.matches else ""
        dropped = f", {size(rule.bytes)} dropped" if rule.bytes else ""
        yield f"{name}: {rule.events:,} events{places}{dropped}"


def size(count: float) -> str:
    """Return *count* bytes in the unit that gives few digits."""
    for unit in _UNITS[:-1]:
        if abs(count) < KIB:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= KIB
    return f"{count:,.1f} {_UNITS[-1]}"


def duration(seconds: float) -> str:
    """Return *seconds* in the unit that gives few digits."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.1f} h" if seconds < _DAY else f"{seconds / _DAY:.1f} days"


def _format(source: SourceStatus) -> str:
    failed = f" [red]({source.failed:,} lines are not)[/]" if source.failed else ""
    return f"{_text(source.format)}{failed}"


def _events(count: int) -> str:
    return f"{count:,} events" if count else ""


def _text(text: str) -> str:
    """Return *text*, which files or peers chose, as rich takes it."""
    return escape(escape_unprintable(text))
