"""What a format of lines is: many lines as columns in, their values as columns out.

A format is a pure function of its lines and options, without I/O and without state. Whatever the
lines are, it never raises: a line that it can't read has a reason instead of values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, Protocol

import pyarrow as pa

from logdrive.pipeline.decode.schema import TIME

TAKEN_NAMES: Final = frozenset(
    "batch ordinal source start end host path service time received day rest fingerprint".split()  # noqa: SIM905
)
"""Columns that all tables of lines have, and those that formats make: no key can have them."""


@dataclass(frozen=True, slots=True)
class LogLines:
    """Events of bronze as a format reads them: all columns have the same length.

    The lines of a source stand in the order of their file, next to each other. Null is allowed
    anywhere. *source* may be a dictionary.
    """

    message: pa.StringArray
    received: pa.TimestampArray
    """Microseconds, UTC: `bronze.events.received`."""
    fields: pa.StringArray
    """JSON text: `bronze.events.fields`."""
    source: pa.Array
    start: pa.Int64Array
    """Where the line begins in its file."""
    end: pa.Int64Array

    def __len__(self) -> int:
        return len(self.message)

    def slice(self, first: int, count: int) -> "LogLines":
        """Return *count* lines from *first* on, without copying."""
        return LogLines(
            self.message.slice(first, count),
            self.received.slice(first, count),
            self.fields.slice(first, count),
            self.source.slice(first, count),
            self.start.slice(first, count),
            self.end.slice(first, count),
        )

    def filter(self, mask: pa.BooleanArray) -> "LogLines":
        """Return the lines where *mask* is true."""
        return LogLines(
            self.message.filter(mask),
            self.received.filter(mask),
            self.fields.filter(mask),
            self.source.filter(mask),
            self.start.filter(mask),
            self.end.filter(mask),
        )


def join_lines(parts: Sequence[LogLines]) -> LogLines:
    """Return the lines of *parts*, one part after the other; there is at least one."""
    if len(parts) == 1:
        return parts[0]
    columns = [[getattr(part, one.name) for part in parts] for one in fields(LogLines)]
    return LogLines(*(_joined(column) for column in columns))


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    joined = pa.chunked_array(arrays).unify_dictionaries().combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """What a format made of lines: aligned with them, a row for each."""

    columns: pa.RecordBatch
    """As the format's `schema`; null where the line has a reason."""
    time: pa.TimestampArray
    """Microseconds, UTC, as the line says; null where it says none."""
    reasons: pa.StringArray
    """Null where the line parsed; else why not, as a short text that stays the same."""


class LogFormat(Protocol):
    """A format of lines, with its options applied."""

    @property
    def name(self) -> str:
        """What configuration and the table `sources` call it."""

    @property
    def table(self) -> str:
        """The silver table of its rows: several formats may share one, with the same columns."""

    @property
    def schema(self) -> pa.Schema:
        """Its own columns, all nullable."""

    def parse(self, lines: LogLines) -> ParsedLines:
        """Return a row for each of *lines*. Never raises for what a line says."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What a source's configuration says of its lines, besides the format's name."""

    zone: str = "UTC"
    """IANA name of the zone of times that name none."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Keys that become columns of their own, with their types: `string`, `int`, `float`, `bool` or
    `time`; for formats of keys and values.
    """


def time_array(values: pa.Array) -> pa.TimestampArray:
    """Return microseconds since 1970 as times."""
    return values.cast(pa.int64()).cast(TIME)
