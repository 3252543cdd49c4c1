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

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class WithTraces:
    """A format, and the continuations of its lines."""

    def __init__(self, lines: LogFormat) -> None:
        """*lines* has a column `message`."""
        self._lines = lines
        self.name = lines.name
        self.table = lines.table
        self.schema = pa.schema([*lines.schema, *TRACE_FIELDS])

    def parse(self, lines: LogLines) -> ParsedLines:
        """Return a row for each line."""
        parsed = self._lines.parse(lines)
        refused = _to_mask(parsed.reasons.is_valid())
        continued = refused & _looks_continued(lines.message, refused)
        if not continued.any():
            return self._finish(parsed, *(pa.nulls(len(lines), one.type) for one in TRACE_FIELDS))

        heads = _find_heads(lines.source, ~refused, continued)
        belongs = heads >= 0
        order = pa.array(np.where(belongs, heads, np.arange(len(lines))))
        here = pa.array(continued)
        message = pc.if_else(here, lines.message, parsed.columns.column("message"))
        at = parsed.columns.schema.get_field_index("message")
        columns = parsed.columns.set_column(at, parsed.columns.schema.field(at), message)
        return self._finish(
            ParsedLines(
                columns,
                parsed.time.take(order),
                pc.if_else(here, None, parsed.reasons),
            ),
            pc.if_else(pa.array(belongs), lines.start.take(order), None),
            _fingerprints(lines.message, heads, continued),
        )

    def _finish(self, parsed: ParsedLines, *traces: pa.Array) -> ParsedLines:
        columns = pa.RecordBatch.from_arrays([*parsed.columns.columns, *traces], schema=self.schema)
        return ParsedLines(columns, parsed.time, parsed.reasons)


def trace_like(texts: pa.StringArray) -> Mask:
    """Return which of *texts* look like a continuation."""
    found = [pc.match_substring_regex(texts, one) for one in (_OTHER, _FRAME, _EXCEPTION, _PANIC)]
    return _to_mask(pc.fill_null(reduce(pc.or_, found), False))


def _looks_continued(texts: pa.StringArray, refused: Mask) -> Mask:
    looks = np.zeros(len(texts), np.bool_)
    if refused.any():
        looks[refused] = trace_like(texts.filter(pa.array(refused)))
    return looks


def _find_heads(source: pa.Array, events: Mask, continued: Mask) -> Rows:
    """Return the row of each line's event: its own if it has continuations; -1 where it has none,
    or is no part of one.
    """
    rows = np.arange(len(events))
    before = np.maximum.accumulate(np.where(events, rows, -1))
    sources = source if pa.types.is_dictionary(source.type) else source.dictionary_encode()
    codes = pc.fill_null(sources.indices, -1).to_numpy(zero_copy_only=False)
    heads = np.where(continued & (before >= 0) & (codes[before] == codes), before, -1)
    own = heads[heads >= 0]
    heads[own] = own
    return heads


def _fingerprints(texts: pa.StringArray, heads: Rows, continued: Mask) -> pa.StringArray:
    rows = np.flatnonzero(continued & (heads >= 0))
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
