"""Makes the format that an input's table asks for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agent.config.formats import FormatName, FormatTable
from agent.events.event import Event
from agent.events.formats.access import read_access
from agent.events.formats.auto import AutoFormat
from agent.events.formats.containers import read_cri, read_docker
from agent.events.formats.csv_lines import CsvReader
from agent.events.formats.json_lines import read_json
from agent.events.formats.klog import read_klog
from agent.events.formats.line_format import LineFormat, LineReader
from agent.events.formats.pairs import pairs_reader, read_logfmt
from agent.events.formats.syslog import read_syslog

READERS: Final[Mapping[FormatName, LineReader]] = {
    "docker": read_docker,
    "json": read_json,
    "cri": read_cri,
    "klog": read_klog,
    "access": read_access,
    "syslog": read_syslog,
    "logfmt": read_logfmt,
}
"""Forms that are told by their lines alone; those that demand more of a line before others."""

FirstEvents = Callable[[], Sequence[Event] | None]
"""Returns the first events of a source, without fields; None if its first bytes can't be read."""


def make_format(
    table: FormatTable, first_events: FirstEvents, on_recognized: Callable[[str], None]
) -> LineFormat | AutoFormat:
    """Return the format of one source that *table* asks for.

    *on_recognized* is called with the name of a form that `auto` has found.
    """
    if table.type == "auto":
        readers = {name: _with_content(read, table) for name, read in READERS.items()}
        return AutoFormat(table, readers, first_events, on_recognized)
    if table.type == "csv":
        return LineFormat(table, CsvReader(table, lambda: _first_line(first_events())).read_values)
    if table.type == "key_value":
        return LineFormat(table, pairs_reader(table.pair_separator, table.value_separator))
    return LineFormat(table, _with_content(READERS[table.type], table))


def _first_line(events: Sequence[Event] | None) -> str | None:
    return events[0].message if events else None


def _with_content(read: LineReader, table: FormatTable) -> LineReader:
    """Return *read*, followed by the reader of what is in a container's line, or a message."""
    if table.content is None or read not in (read_cri, read_docker, read_syslog):
        return read
    inner, name, marks = READERS[table.content], table.content, table.bad_lines == "mark"

    def read_both(event: Event) -> dict[str, Any] | None:
        fields = read(event)
        if fields is None:
            return None
        content = fields.get("content", event.message)
        inside = inner(Event(event.start, event.end, content))
        if inside is not None:
            return fields | inside
        if marks and content:
            fields["error"] = {"message": f"content is not {name}", "type": name}
        return fields

    return read_both
