"""Columns that mostly hold one value: rows that differ are collected, then made into Arrow."""

from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.decode.schema import TIME

Rows = npt.NDArray[np.int64]


def label_column(
    values: Sequence[str | None], counts: Rows, others: "Sparse | None" = None
) -> pa.DictionaryArray:
    """Return a dictionary column in which values[i] is repeated counts[i] times.

    *others* gives rows with other values.
    """
    codes: dict[Hashable, int] = {}
    distinct = np.fromiter((_code(codes, value) for value in values), np.int32, len(values))
    indices = np.repeat(distinct, counts)
    if others is not None and others.rows:
        indices[others.rows] = np.fromiter(
            (_code(codes, value) for value in others.values), np.int32, len(others.values)
        )
    return dictionary_column(indices, list(codes))


def dictionary_column(indices: npt.NDArray[np.int32], values: Sequence[Any]) -> pa.DictionaryArray:
    """Return a dictionary column of strings; a None in *values* becomes null."""
    null = next((n for n, value in enumerate(values) if value is None), None)
    mask = None if null is None else indices == null
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32(), mask=mask),
        pa.array(["" if value is None else value for value in values], pa.string()),
        safe=False,  # every index was made of a place in *values*
    )


def _code(codes: dict[Hashable, int], value: Hashable) -> int:
    return codes.setdefault(value, len(codes))


class Sparse:
    """The rows of one column that differ from its usual value."""

    def __init__(self) -> None:
        self.rows: list[int] = []  # in rising order
        self.values: list[Any] = []  # one for each of the rows

    def set_value(self, row: int, value: Any) -> None:
        """Set the value of *row*, which must be behind all rows set before."""
        self.rows.append(row)
        self.values.append(value)

    def extend_values(self, first: int, values: Sequence[Any]) -> None:
        """Set the rows from *first* on to *values*; None leaves a row at the usual value."""
        if None not in values:  # the usual case, without a loop in Python
            self.rows += range(first, first + len(values))
            self.values += values
            return
        for row, value in enumerate(values, first):
            if value is not None:
                self.set_value(row, value)

    def replace_values(self, values: Mapping[int, Any]) -> None:
        """Set rows, in any order, to other values."""
        known = dict(zip(self.rows, self.values, strict=True)) | dict(values)
        self.rows = sorted(known)
        self.values = [known[row] for row in self.rows]

    def to_array(self, count: int, kind: pa.DataType) -> pa.Array:
        """Return a column of *count* rows, null where no value was set."""
        if not self.rows:
            return pa.nulls(count, kind)
        values = pa.array(self.values, kind)
        if len(self.rows) == count:
            return values

        index = np.zeros(count, np.int64)
        missing = np.ones(count, np.bool_)
        index[self.rows] = np.arange(len(self.rows))
        missing[self.rows] = False
        # Arrow takes null where the index is null
        return values.take(pa.array(index, mask=missing))


def parse_times(texts: pa.StringArray) -> tuple[pa.Array, list[int]]:
    """Parse ISO 8601 texts; return the times, and the rows whose text says more than the time.

    A text without a zone is UTC. A text that is no time becomes null. Its row is one of those
    returned, as is that of a text finer than a microsecond.
    """
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), TIME), []
    try:
        return texts.cast(TIME), []
    except pa.ArrowInvalid:  # one lacks a zone, has more than six digits, or is no time
        times = pa.array(
            [None if text is None else _parse_time(text) for text in texts.to_pylist()], TIME
        )

    lost = pc.and_not(pc.is_null(times), pc.is_null(texts))
    finer = pc.fill_null(pc.match_substring_regex(texts, r"\.\d{6}\d*[1-9]"), False)
    return times, [int(row) for row in pc.indices_nonzero(pc.or_(lost, finer)).to_pylist()]


def _parse_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
