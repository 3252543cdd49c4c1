"""Finds the bytes of one source that are in no row, by its headers: what was left out on purpose
(rule A4), and what was lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from logdrive.pipeline.audit.sources import ON_PURPOSE
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.coverage import Interval, subtract, union
from logdrive.pipeline.tables.delta import AppendTable

_COLUMNS: Final = (
    "kind",
    "position",
    "kept",
    "dropped",
    "mark_start",
    "mark_end",
    "mark_reason",
)


class Absent(NamedTuple):
    """Bytes of a file that are in no row."""

    left_out: list[Interval]
    """By rules of the agent, or because an operator had them skipped or sent again."""
    lost: list[Interval]


class SentBytes(NamedTuple):
    """What the headers of a source say; read it before the rows, which are committed first."""

    last: int
    """The greatest position that was sent."""
    left_out: list[Interval]

    def find_absent(self, known: Sequence[Interval]) -> Absent:
        """Return the bytes of the source that are in none of *known*, which is sorted."""
        absent = subtract(union([(0, self.last)]), known)
        lost = subtract(absent, self.left_out)
        return Absent(subtract(absent, lost), lost)


def read_sent(directory: str, source: str) -> SentBytes:
    """Return what the headers of *source* say. Raises `StorageError`."""
    _, batches = open_tables(directory)
    rows = _read_headers(batches, source)
    last = max((row[name] or 0 for row in rows for name in ("position", "mark_end")), default=0)
    return SentBytes(last, _left_out(rows))


def read_left_out(batches: AppendTable, source: str) -> list[Interval]:
    """Return the bytes of *source* that its agent was told to leave out, as *batches* has them."""
    return _left_out(_read_headers(batches, source))


def _read_headers(batches: AppendTable, source: str) -> list[dict[str, Any]]:
    rows = batches.read_rows(_COLUMNS, pc.field("source") == source)
    return [*rows.to_pylist()]


def _left_out(rows: Sequence[Mapping[str, Any]]) -> list[Interval]:
    dropped = [
        (one["start"], one["end"]) for row in rows if row["kept"] for one in row["dropped"] or ()
    ]
    marks = [
        (row["mark_start"] or 0, row["mark_end"] or 0)
        for row in rows
        if row["kind"] == "gap" and row["mark_reason"] in ON_PURPOSE
    ]
    return union([*dropped, *marks])
