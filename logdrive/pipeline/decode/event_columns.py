"""Collects event rows until they become an Arrow table.

Values that all events of a batch share are kept once per batch, positions and messages as arrays,
and rare values sparsely.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from logdrive.pipeline.decode.columns import Sparse, dictionary_column, label_column, parse_times
from logdrive.pipeline.decode.headers import BatchRow
from logdrive.pipeline.decode.lines import LF, LINE_ENDS, Lines
from logdrive.pipeline.decode.records import TIMESTAMP, UNKNOWN, SingleEvents
from logdrive.pipeline.decode.schema import EVENTS, TIME

_ABSENT = -1  # position, or code of a line end, that an event lacks
_END_CODES = {eol: code for code, eol in enumerate(LINE_ENDS)}
_SPARSE = ("host", "path", "original", "form", "flag", "fields", "time")


def _sparse_columns() -> dict[str, Sparse]:
    return {name: Sparse() for name in _SPARSE}


@dataclass(slots=True)
class EventColumns:
    """The columns of some batches' events, in order; each list has an item per piece added."""

    # without line ends
    messages: list[pa.StringArray] = field(default_factory=list)
    # positions in the file, `_ABSENT` where an event has none
    starts: list[npt.NDArray[np.int64]] = field(default_factory=list)
    stops: list[npt.NDArray[np.int64]] = field(default_factory=list)
    # codes of line ends, as in `LINE_ENDS`
    ends: list[npt.NDArray[np.int8]] = field(default_factory=list)
    # line ends that have no code: their rows have another one in `ends`
    odd_ends: Sparse = field(default_factory=Sparse)
    # forms, each with the number of its rows; singles may have another in `sparse`
    forms: list[tuple[str, int]] = field(default_factory=list)
    # columns of `_SPARSE`, where they differ from what the batch or most rows have
    sparse: dict[str, Sparse] = field(default_factory=_sparse_columns)
    # rows so far
    count: int = 0

    def add_lines(self, lines: Lines, form: str) -> None:
        """Add consecutive events of one batch, or of several, that came in *form*."""
        originals = self.sparse["original"]
        for row, original in lines.originals.items():
            originals.set_value(self.count + row, original)
        self.forms.append((form, len(lines.starts)))
        self.messages.append(lines.messages)
        self.starts.append(lines.starts)
        self.stops.append(lines.stops)
        self.ends.append(np.zeros(len(lines.starts), np.int8) if lines.ends is None else lines.ends)
        self.count += len(lines.starts)

    def add_singles(self, events: SingleEvents) -> None:
        """Add single events; there must be some."""
        columns = events.columns()
        for name, sparse in self.sparse.items():
            sparse.extend_values(self.count, columns[name])

        codes = [_END_CODES.get(eol, _ABSENT) for eol in columns["eol"]]
        if _ABSENT in codes:  # null, or a line end without a code
            for row, code in enumerate(codes):
                if code == _ABSENT:
                    self.odd_ends.set_value(self.count + row, columns["eol"][row])
                    codes[row] = LF  # replaced in `_line_ends`

        self.add_lines(
            Lines(
                pa.array(columns["message"], pa.string()),
                _positions(columns["start"]),
                _positions(columns["end"]),
                np.array(codes, np.int8) if any(codes) else None,
                {},
            ),
            UNKNOWN,
        )


def _positions(values: Sequence[int | None]) -> npt.NDArray[np.int64]:
    return np.array(
        values if None not in values else [_ABSENT if value is None else value for value in values],
        np.int64,
    )


def events_table(
    columns: EventColumns, batches: list[BatchRow], names: Sequence[str] = tuple(EVENTS.names)
) -> pa.Table:
    """Return the columns *names* as a table, in their order; all of `EVENTS` if none are given.

    Values of *batches* are repeated for each batch's `rows`, strings as dictionaries. Columns that
    are not asked for are not made.
    """
    counts = np.array([batch.rows for batch in batches], np.int64)
    times = _times(columns) if {"time", "fields"} & set(names) else None  # may add to `fields`
    arrays = [
        times if name == "time" else _event_column(name, columns, batches, counts) for name in names
    ]
    return pa.table(arrays, schema=pa.schema([EVENTS.field(name) for name in names]))


def _event_column(
    name: str, columns: EventColumns, batches: list[BatchRow], counts: npt.NDArray[np.int64]
) -> pa.Array | pa.ChunkedArray:
    """Return the column *name* of all rows; *batches* have *counts* rows each."""
    sparse = columns.sparse
    match name:
        case "stream" | "segment" | "source" | "host" | "path":
            values = [getattr(batch, name) for batch in batches]
            return label_column(values, counts, sparse.get(name))
        case "batch" | "offset":
            each = np.array([getattr(batch, name) for batch in batches], np.int64)
            return pa.array(np.repeat(each, counts))
        case "ordinal":
            first = np.cumsum(counts) - counts  # row at which each batch begins
            return pa.array((np.arange(columns.count) - np.repeat(first, counts)).astype(np.int32))
        case "received":
            each = np.array([(batch.received or 0) * 1000 for batch in batches], np.int64)
            return pa.array(np.repeat(each, counts), TIME)
        case "start":
            return _position_column(columns.starts)
        case "end":
            return _position_column(columns.stops)
        case "message":
            return pa.chunked_array(columns.messages, pa.string())
        case "eol":
            return _line_ends(columns)
        case "form":
            forms = [form for form, _ in columns.forms]
            sizes = np.array([count for _, count in columns.forms], np.int64)
            return label_column(forms, sizes, sparse["form"])
        case "flag":
            return label_column([None], np.array([columns.count]), sparse["flag"])
        case _:
            return sparse[name].to_array(columns.count, EVENTS.field(name).type)


def _times(columns: EventColumns) -> pa.Array:
    """Return the column `time`; a text that says more than its time is also kept in `fields`."""
    texts = columns.sparse["time"].to_array(columns.count, pa.string())
    times, rows = parse_times(texts)
    if rows:
        fields = columns.sparse["fields"]
        known = dict(zip(fields.rows, fields.values, strict=True))
        fields.replace_values({row: _with_time(texts[row].as_py(), known.get(row)) for row in rows})
    return times


def _with_time(text: str, fields: str | None) -> str:
    said = orjson.dumps({TIMESTAMP: text}).decode()
    return said if fields is None else f"{said[:-1]},{fields[1:]}"


def _position_column(pieces: list[npt.NDArray[np.int64]]) -> pa.Array:
    values = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    absent = values == _ABSENT
    return pa.array(values, mask=absent if absent.any() else None)


def _line_ends(columns: EventColumns) -> pa.DictionaryArray:
    codes = (np.concatenate(columns.ends) if columns.ends else np.empty(0, np.int8)).astype(
        np.int32
    )
    values: list[str | None] = list(LINE_ENDS)
    for row, value in zip(columns.odd_ends.rows, columns.odd_ends.values, strict=True):
        if value not in values:
            values.append(value)
        codes[row] = values.index(value)
    return dictionary_column(codes, values)
