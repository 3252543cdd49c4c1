"""Stack traces, and other messages of several lines: they belong to the event before them.

A line that a format can't read is a *continuation* if it looks like a part of a stack trace (of
Java, Python, Go, Ruby or .NET), is indented, or empty. It gets a row of its own in the table of the
format, with its text as `message` and the time of the event. In the rows of event and
continuations, `trace` is where the event's line begins. `fingerprint` is a hash of the classes of
exceptions and the frames, without numbers and addresses, and the same on every machine; it is null
where there are none.

An event and its continuations are recognized among the lines that are parsed together. A
continuation whose event is not among them has neither `trace` nor `fingerprint` nor time.
"""

from functools import reduce
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.format import LogFormat, LogLines, ParsedLines

TRACE_FIELDS: Final = (pa.field("trace", pa.int64()), pa.field("fingerprint", pa.string()))

_EXCEPTION = (
    r"^\s*((?:Caused by: |Suppressed: |Unhandled exception\. | ?---> )?"
    r'(?:Exception in thread "[^"]*" )?'
    r"[A-Za-z_](?:[\w$]*[.:]{1,2})*\w*(?:Exception|Error|Throwable|Failure|Interrupt|Exit|Warning))"
    r"(?::.*|\s*)$"
)
"""The class of an exception, in Java, Python and .NET; its group leaves the message out."""
_PANIC = r"^(?:panic|fatal error): .*$"  # Go's
_FRAME = (
    r"^\s+at \S.*$"  # Java, .NET, JavaScript
    r'|^\s+File "'  # Python
    r"|^\s*from \S+:\d+|^\S+:\d+:in [`']"  # Ruby
    r"|^\t\S+\.(?:go|s):\d+|^(?:created by )?[\w./-]+\.[\w.()*\[\]]+\(.*\)(?: in goroutine \d+)?$"
    r"|^created by \S+"
)
_OTHER = (
    r"^\s*$|^\s+\S|^Traceback \(most recent call last\):$|^During handling of the above exception"
    r"|^The above exception was the direct cause|^goroutine \d+ .*:$|^\[signal |^exit status \d+$"
    r"|^--- End of |^Caused by: |^Suppressed: "
)
_VARYING = r"0x[0-9A-Fa-f]+|[0-9]+|~?\[[^\]]*\.jar[^\]]*\]"
_DIGEST_BYTES = 8
_STREAMS = 8  # more than a container has

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


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
        refused = _to_mask(parsed.reasons.is_valid())
        texts = lines.message
        candidates = refused
        if self._streams:
            texts, candidates = parsed.columns.column("message"), ~refused
        continued = _looks_continued(texts, candidates)
        if not continued.any():
            return self._finish(parsed, *(pa.nulls(len(lines), one.type) for one in TRACE_FIELDS))

        groups = _codes(lines.source)
        if self._streams:
            groups = groups * _STREAMS + _codes(parsed.columns.column(self._streams))
        heads = _find_heads(groups, ~refused & ~continued, continued)
        traces = (
            pc.if_else(pa.array(heads >= 0), lines.start.take(_places(heads)), None),
            _fingerprints(texts, heads, continued),
        )
        whole = parsed if self._streams else _fill_continued(parsed, lines, heads, continued)
        return self._finish(whole, *traces)

    def _finish(self, parsed: ParsedLines, *traces: pa.Array) -> ParsedLines:
        columns = pa.RecordBatch.from_arrays([*parsed.columns.columns, *traces], schema=self.schema)
        return ParsedLines(columns, parsed.time, parsed.reasons)


def _fill_continued(
    parsed: ParsedLines, lines: LogLines, heads: Rows, continued: Mask
) -> ParsedLines:
    """Return *parsed* with rows of continuations, which the format refused."""
    here = pa.array(continued)
    at = parsed.columns.schema.get_field_index("message")
    message = pc.if_else(here, lines.message, parsed.columns.column(at))
    columns = parsed.columns.set_column(at, parsed.columns.schema.field(at), message)
    reasons = pc.if_else(here, None, parsed.reasons)
    return ParsedLines(columns, parsed.time.take(_places(heads)), reasons)


def trace_like(texts: pa.StringArray) -> Mask:
    """Return which of *texts* look like a continuation."""
    found = [pc.match_substring_regex(texts, one) for one in (_OTHER, _FRAME, _EXCEPTION, _PANIC)]
    return _to_mask(pc.fill_null(reduce(pc.or_, found), False))


def _looks_continued(texts: pa.StringArray, candidates: Mask) -> Mask:
    looks = np.zeros(len(texts), np.bool_)
    if candidates.any():
        looks[candidates] = trace_like(texts.filter(pa.array(candidates)))
    return looks


def _codes(values: pa.Array) -> Rows:
    """Return a number for each value, from 0 on: the same for the same ones, null too."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return np.asarray(pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False) + 1, np.int64)


def _find_heads(groups: Rows, events: Mask, continued: Mask) -> Rows:
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


def _places(heads: Rows) -> pa.Array:
    """Return the row of each line's event, or else its own."""
    return pa.array(np.where(heads >= 0, heads, np.arange(len(heads))))


def _fingerprints(texts: pa.StringArray, heads: Rows, continued: Mask) -> pa.StringArray:
    rows = np.flatnonzero(continued & (heads >= 0))
    rows = rows[np.argsort(heads[rows], kind="stable")]  # those of an event next to each other
    said = texts.take(pa.array(rows))
    exceptions = _to_mask(pc.fill_null(pc.match_substring_regex(said, _EXCEPTION), False))
    frames = pc.or_(pc.match_substring_regex(said, _FRAME), pc.match_substring_regex(said, _PANIC))
    telling = exceptions | _to_mask(pc.fill_null(frames, False))
    rows, said = rows[telling], said.filter(pa.array(telling))
    said = pc.replace_substring_regex(said, _EXCEPTION, r"\1")
    said = pc.utf8_trim_whitespace(pc.replace_substring_regex(said, _VARYING, ""))

    ends = np.flatnonzero(np.diff(heads[rows], append=-1))
    prints = pa.array(_hash_groups(said, ends), pa.string())
    # of a line the place of its head among those that have a fingerprint
    named = heads[rows][ends]
    place = np.searchsorted(named, heads)
    here = (heads >= 0) & np.isin(heads, named)
    return prints.take(pa.array(np.where(here, place, 0), mask=~here))


def _hash_groups(texts: pa.StringArray, ends: Rows) -> list[str]:
    """Return a hash of each run of *texts*; the last of a run is at its place of *ends*."""
    lines, first, hashes = texts.to_pylist(), 0, []
    for end in ends.tolist():
        whole = "\n".join(lines[first : end + 1]).encode()
        hashes.append(blake2b(whole, digest_size=_DIGEST_BYTES).hexdigest())
        first = end + 1
    return hashes


def _to_mask(values: pa.BooleanArray) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)
