r"""Lines of keys and values: `time=2026-01-02T03:04:05Z level=info msg="order placed" id=7`.

A value with spaces stands in quotes, with escapes as in JSON.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.arrays import to_booleans, to_integers
from logdrive.pipeline.formats.format import FormatOptions, LogLines, ParsedLines
from logdrive.pipeline.formats.json_text import json_strings
from logdrive.pipeline.formats.keyed import KeyedPairs, KeyedReader
from logdrive.pipeline.formats.matching import first_reason, record_batch
from logdrive.pipeline.formats.patterns import NO_TIME, no_line

_PAIR = (
    r'([A-Za-z_@][\w.@/-]*)=("(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*"|[^\s"\x00-\x1f]*)(?:[ \t]+|$)'
)
_LINE = rf"^\s*(?:{_PAIR}){{2,}}$"
_SEPARATOR: Final = "\x01"  # which no pair has
_JSON_STRING = r'^"(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9A-CE-Fa-ce-f][0-9A-Fa-f]{3})*"$'
_JSON_WORD = r"^(?:-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?|true|false)$"
"""Numbers that any reader of JSON reads exactly, and truths."""


class LogfmtFormat:
    """Keys and values, at least two; columns as of JSON."""

    name = "logfmt"
    table = "logfmt"

    def __init__(self, options: FormatOptions) -> None:
        self._reader = KeyedReader(options)
        self.schema = self._reader.schema

    def parse(self, lines: LogLines) -> ParsedLines:
        """Return a row for each line."""
        matched = pc.fill_null(pc.match_substring_regex(lines.message, _LINE), False)
        pairs = _read_pairs(lines.message, matched)
        columns, time, invalid = self._reader.read(pairs, lines.received)
        reasons = first_reason(
            len(lines), (pc.invert(matched), no_line(self.name)), (invalid, NO_TIME)
        )
        return ParsedLines(record_batch(self.schema, columns, reasons.is_valid()), time, reasons)


def _read_pairs(texts: pa.StringArray, matched: pa.BooleanArray) -> KeyedPairs:
    """Return the pairs of the texts that *matched*."""
    trimmed = pc.utf8_ltrim_whitespace(texts.filter(matched))
    # each pair becomes key, separator, value, separator
    marked = pc.replace_substring_regex(trimmed, _PAIR, rf"\1{_SEPARATOR}\2{_SEPARATOR}")
    lists = pc.split_pattern(marked, _SEPARATOR)
    parts = pc.list_flatten(lists)
    sizes = to_integers(pc.list_value_length(lists))
    behind = np.zeros(len(parts), np.bool_)  # what is behind the last separator of each line
    behind[np.cumsum(sizes) - 1] = True
    parts = parts.filter(pa.array(~behind))
    pairs = np.arange(0, len(parts), 2)
    rows = np.repeat(np.flatnonzero(to_booleans(matched)), sizes // 2)
    return KeyedPairs(rows, parts.take(pa.array(pairs)), _to_json(parts.take(pa.array(pairs + 1))))


def _to_json(values: pa.StringArray) -> pa.StringArray:
    as_is = pc.or_(
        pc.match_substring_regex(values, _JSON_STRING), pc.match_substring_regex(values, _JSON_WORD)
    )
    if as_is.false_count == 0:
        return values
    others = values.filter(pc.invert(as_is))
    quoted = pc.starts_with(others, '"')
    # of the others, the first or last byte may be half a character
    within = pc.if_else(quoted, others, '""').cast(pa.binary())
    inside = pc.binary_slice(within, 1, -1).cast(pa.string())
    inside = pc.replace_substring_regex(inside, r"\\([\"\\])", r"\1")
    return pc.replace_with_mask(
        values, pc.invert(as_is), json_strings(pc.if_else(quoted, inside, others))
    )
