"""Formats whose lines one regular expression tells: its groups are the columns."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.arrays import to_booleans
from logdrive.pipeline.formats.format import FormatOptions, LogFormat, LogLines, ParsedLines
from logdrive.pipeline.formats.joining import filter_parsed, join_parsed
from logdrive.pipeline.formats.json_text import json_objects, json_strings
from logdrive.pipeline.formats.levels import normal_levels
from logdrive.pipeline.formats.matching import Groups, first_reason, match_groups, record_batch
from logdrive.pipeline.formats.times import TIME_GROUPS, read_times

NO_TIME: Final = "no such time"
"""Reason: the line has a time that no clock shows."""

Derive = Callable[[Groups], Mapping[str, pa.Array]]


class PatternFormat:
    """Lines that match an expression.

    Groups with the name of a column are that column, those of `times` the time; others go into
    `rest`, if the schema has it. Empty ones are null.
    """

    def __init__(
        self,
        name: str,
        table: str,
        schema: pa.Schema,
        pattern: str,
        options: FormatOptions,
        derive: Derive = lambda _: {},
        hidden: Collection[str] = (),
    ) -> None:
        """*derive* makes columns that are no group by themselves; groups *hidden* are not kept."""
        self.name = name
        self.table = table
        self.schema = schema
        self._pattern = pattern
        self._zone = options.zone
        self._derive = derive
        self._hidden = hidden

    def parse(self, lines: LogLines) -> ParsedLines:
        """Return a row for each line; a line that does not match is `no <name> line`."""
        groups = match_groups(lines.message, self._pattern)
        times = read_times(groups, lines.received, self._zone)
        reasons = first_reason(
            len(lines),
            (pc.invert(groups.matched), no_line(self.name)),
            (times.invalid, NO_TIME),
        )
        columns = record_batch(self.schema, self._columns(groups), reasons.is_valid())
        return ParsedLines(columns, times.time, reasons)

    def _columns(self, groups: Groups) -> dict[str, pa.Array]:
        count = len(groups.matched)
        derived = self._derive(groups)
        columns = dict(derived)
        for field in self.schema:
            if field.name in columns:
                continue
            if field.name in groups.values:
                numeric = pa.types.is_integer(field.type)
                read = groups.number if numeric else groups.text
                columns[field.name] = read(field.name)
            else:
                columns[field.name] = pa.nulls(count, field.type)
        if "level" in groups.values:
            columns["level"] = normal_levels(columns["level"])
        others = [] if "rest" in derived else self._others(groups)
        if others:
            members = {name: json_strings(groups.text(name)) for name in others}
            columns["rest"] = json_objects(count, members)
        return columns

    def _others(self, groups: Groups) -> list[str]:
        if "rest" not in self.schema.names:
            return []
        known = {*self.schema.names, *TIME_GROUPS, *self._hidden}
        return [name for name in groups.values if name not in known]


class FirstOf:
    """Several formats of the same columns and name: a line is read by the first that can."""

    def __init__(self, formats: Sequence[LogFormat]) -> None:
        self._formats = formats
        self.name = formats[0].name
        self.table = formats[0].table
        self.schema = formats[0].schema

    def parse(self, lines: LogLines) -> ParsedLines:
        """Return a row for each line."""
        refusal = no_line(self.name)
        parts: list[ParsedLines] = []
        places: list[np.ndarray] = []
        rows = np.arange(len(lines))
        for last, one in enumerate(self._formats, 1 - len(self._formats)):
            parsed = one.parse(lines)
            open_ = pc.fill_null(pc.equal(parsed.reasons, refusal), False)
            if not open_.true_count and not parts:
                return parsed
            closed = pa.array(np.ones(len(lines), np.bool_)) if not last else pc.invert(open_)
            parts.append(filter_parsed(parsed, closed))
            places.append(rows[to_booleans(closed)])
            lines, rows = lines.filter(open_), rows[to_booleans(open_)]
        return join_parsed(parts, np.concatenate(places))


def no_line(name: str) -> str:
    """Return the reason of a line that has not the form of *name*."""
    return f"no {name} line"
