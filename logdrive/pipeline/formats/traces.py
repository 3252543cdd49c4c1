"""Stack traces, and other messages of several lines: they belong to the event before them.

A line that a format can't read is a *continuation* if it looks like a part of a stack trace (of
Java, Python, Go, Ruby or .NET), is indented, or empty. It gets a row of its own in the table of the
format, with its text as `message` and the time of the event. In the rows of event and
continuations, `trace` is where the event's line begins. `fingerprint` is a hash of the classes of
exceptions and the frames, as `fingerprints` says; it is null where there are none.

An event and its continuations are recognized among the lines that are parsed together. If the event
is not among them, the first line of a stack trace takes its place, and there is no time; without
that there are neither `trace` nor `fingerprint`.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.arrays import Booleans, Integers, to_booleans, to_integers
from logdrive.pipeline.formats.fingerprints import begins_trace, fingerprint_groups, trace_like
from logdrive.pipeline.formats.format import LogFormat, LogLines, ParsedLines, join_lines

TRACE_FIELDS: Final = (pa.field("trace", pa.int64()), pa.field("fingerprint", pa.string()))

_STREAMS = 8  # more than a container has


class WithTraces:
    """A format, and the continuations of its lines."""

    def __init__(self, lines: LogFormat, *, streams: str | None = None) -> None:
        """*lines* has a column `message`.

        With *streams* every line of a trace is an event of its own, as those of containers are; it
        belongs to one with the same text in that column.
        """
        self._lines = lines
        self._streams = streams
        self.name = lines.name
        self.table = lines.table
        self.schema = pa.schema([*lines.schema, *TRACE_FIELDS])

    def parse(self, lines: LogLines) -> ParsedLines:
        """Return a row for each line."""
        parsed = self._lines.parse(lines)
        texts, heads, continued = self._belong(lines, parsed)
        if not continued.any():
            return self._finish(parsed, *(pa.nulls(len(lines), one.type) for one in TRACE_FIELDS))
        traces = (
            pc.if_else(pa.array(heads >= 0), lines.start.take(_places(heads)), None),
            _fingerprints(texts, heads, continued),
        )
        whole = parsed if self._streams else _fill_continued(parsed, lines, heads, continued)
        return self._finish(whole, *traces)

    def count_open(self, lines: LogLines, following: LogLines) -> int:
        """Return how many of the last *lines* stand together with some of those *following* them.

        Parsed without each other, these would be two traces. All are of one source.
        """
        both = join_lines([lines, following])
        _, heads, _ = self._belong(both, self._lines.parse(both))
        before = heads[len(lines) :]
        before = before[(before >= 0) & (before < len(lines))]
        return len(lines) - int(before.min()) if len(before) else 0

    def _belong(
        self, lines: LogLines, parsed: ParsedLines
    ) -> tuple[pa.StringArray, Integers, Booleans]:
        """Return the texts of *lines*, the row of each one's event, as `_find_heads` does, and
        which are continuations.
        """
        refused = to_booleans(parsed.reasons.is_valid())
        texts = lines.message
        candidates = refused
        if self._streams:
            texts, candidates = parsed.columns.column("message"), ~refused
        continued = _looks_continued(texts, candidates)
        if not continued.any():
            return texts, np.full(len(lines), -1), continued
        groups = _codes(lines.source)
        if self._streams:
            groups = groups * _STREAMS + _codes(parsed.columns.column(self._streams))
        heads = _find_heads(groups, ~refused & ~continued, continued)
        alone = continued & (heads < 0)
        if alone.any():  # a trace without an event belongs to its own first line
            begins = alone & begins_trace(texts, _follows(groups, continued))
            heads = np.maximum(heads, _find_heads(groups, begins, alone & ~begins))
        return texts, heads, continued

    def _finish(self, parsed: ParsedLines, *traces: pa.Array) -> ParsedLines:
        columns = pa.RecordBatch.from_arrays([*parsed.columns.columns, *traces], schema=self.schema)
        return ParsedLines(columns, parsed.time, parsed.reasons)


def _fill_continued(
    parsed: ParsedLines, lines: LogLines, heads: Integers, continued: Booleans
) -> ParsedLines:
    """Return *parsed* with rows of continuations, which the format refused."""
    here = pa.array(continued)
    at = parsed.columns.schema.get_field_index("message")
    message = pc.if_else(here, lines.message, parsed.columns.column(at))
    columns = parsed.columns.set_column(at, parsed.columns.schema.field(at), message)
    reasons = pc.if_else(here, None, parsed.reasons)
    return ParsedLines(columns, parsed.time.take(_places(heads)), reasons)


def _looks_continued(texts: pa.StringArray, candidates: Booleans) -> Booleans:
    looks = np.zeros(len(texts), np.bool_)
    if candidates.any():
        looks[candidates] = trace_like(texts.filter(pa.array(candidates)))
    return looks


def _codes(values: pa.Array) -> Integers:
    """Return a number for each value, from 0 on: the same for the same ones, null too."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return to_integers(pc.fill_null(values.indices, -1)) + 1


def _find_heads(groups: Integers, events: Booleans, continued: Booleans) -> Integers:
    """Return the row of each line's event: its own if it has continuations; -1 where it has none,
    or is no part of one. Only lines of the same group belong together.
    """
    order = np.argsort(groups, kind="stable")
    place = np.arange(len(order))
    before = np.maximum.accumulate(np.where(events[order], place, -1))
    heads = np.full(len(order), -1)
    found = continued[order] & (before >= 0) & (groups[order][before] == groups[order])
    heads[order[found]] = order[before[found]]
    own = heads[heads >= 0]
    heads[own] = own
    return heads


def _follows(groups: Integers, continued: Booleans) -> Booleans:
    """Return which lines come right after a continuation of the same group."""
    order = np.argsort(groups, kind="stable")
    follows = np.zeros(len(order), np.bool_)
    same = groups[order][1:] == groups[order][:-1]
    follows[order[1:]] = same & continued[order][:-1]
    return follows


def _places(heads: Integers) -> pa.Array:
    """Return the row of each line's event, or else its own."""
    return pa.array(np.where(heads >= 0, heads, np.arange(len(heads))))


def _fingerprints(texts: pa.StringArray, heads: Integers, continued: Booleans) -> pa.StringArray:
    rows = np.flatnonzero(continued & (heads >= 0))
    rows = rows[np.argsort(heads[rows], kind="stable")]  # those of an event next to each other
    named, prints = fingerprint_groups(texts.take(pa.array(rows)), heads[rows])
    here = np.isin(heads, named)
    return prints.take(pa.array(np.searchsorted(named, heads), mask=~here))
