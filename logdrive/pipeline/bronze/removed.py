"""Parts of a stream that no row has: they were removed, or lost, before a run had read them.

Each batch that was read has a row in `batches` with its offsets, batches lie one behind the other,
and a segment begins at 0. So a hole between the rows of a segment was never read, whatever happened
to the store. A part behind the last row leaves no hole until something follows: the run that meets
one notes it in the table `removed`, one row for each part. Rows that a later run reads there after
all, as of a store that was restored, take the part away again.

What lies before the beginning of tables that begin at a time is no such part, until it was filled.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.model.units import OffsetUnit
from logdrive.pipeline.bronze.beginnings import UnfilledPart, read_beginnings
from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.decode.schema import LABEL, TIME, plain_schema
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.files import write_file
from logdrive.pipeline.tables.open_table import create_table, is_table, open_table

EPOCH_MARK: Final = ".#epoch."
"""What is in the names of Pravega's segments alone, behind the number. Their offsets count bytes;
those of all others count records.
"""

PLACE_COLUMNS: Final = ("segment", "offset", "next")
"""The columns of `batches` that say what was read."""

REMOVED_SCHEMA: Final = pa.schema(
    [
        pa.field("segment", LABEL, nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("noted", TIME, nullable=False),
    ]
)

_Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RemovedPart:
    """Offsets [*start*, *end*) of *segment*, which were removed before they were read."""

    segment: str
    start: int
    end: int
    unit: OffsetUnit
    """What these offsets count."""

    @property
    def size(self) -> int:
        """How many of `unit` it has."""
        return self.end - self.start


def find_removed(
    directory: str, places: pa.Table, unfilled: Sequence[UnfilledPart]
) -> list[RemovedPart]:
    """Return the removed parts of the tables in *directory*, by segment and offset.

    *places* are all rows of `batches`, with `PLACE_COLUMNS`; *unfilled* is what `find_unfilled`
    returns. Raises `StorageError`.
    """
    waiting = {part.stream for part in unfilled}
    firsts = {
        name: one.offset
        for name, one in read_beginnings(directory).items()
        if one.stream in waiting
    }
    noted = _noted_ends(directory)
    found = {
        segment: find_holes(starts, ends, firsts.get(segment, 0), noted.pop(segment, 0))
        for segment, starts, ends in _split_segments(places)
    }
    # segments of which nothing was read at all
    none = np.empty(0, np.int64)
    for segment, end in noted.items():
        found[segment] = find_holes(none, none, firsts.get(segment, 0), end)
    return [
        RemovedPart(segment, start, end, "bytes" if EPOCH_MARK in segment else "records")
        for segment, holes in sorted(found.items())
        for start, end in holes
    ]


def note_removed(
    directory: str, batches: AppendTable, segment: str, first: int, end: int, now_ms: int
) -> int:
    """Note that the stream no longer has [*first*, *end*) of *segment*, in one durable commit.

    Returns how many of these offsets neither *batches* has nor was noted before; without any,
    nothing is written. Raises `StorageError`.
    """
    rows = batches.read_rows(PLACE_COLUMNS[1:], pc.field("segment") == segment)
    first = max(first, _noted_ends(directory).get(segment, 0))
    holes = find_holes(*_sorted_offsets(rows), first, end)
    holes = [(start, min(stop, end)) for start, stop in holes if start < end]
    if not holes:
        return 0
    table = create_table(removed_path(directory), REMOVED_SCHEMA)
    values = {
        "segment": [segment] * len(holes),
        "start": [start for start, _ in holes],
        "end": [stop for _, stop in holes],
        "noted": [now_ms * 1000] * len(holes),
    }
    made = pa.table(values, schema=plain_schema(REMOVED_SCHEMA)).cast(REMOVED_SCHEMA)
    staged = write_file(table.path, made)
    table.add_files([staged] if staged else [], {})
    return sum(stop - start for start, stop in holes)


def find_holes(starts: _Offsets, ends: _Offsets, first: int, until: int) -> list[tuple[int, int]]:
    """Return what the intervals from *starts* to *ends* leave out behind *first*, in order.

    That is what lies between them, and behind them up to *until*. *starts* is sorted.
    """
    begins = np.append(starts, until)
    # where the intervals before each one lead, at the furthest
    reached = np.maximum.accumulate(np.concatenate(([first], ends)))
    return [(int(reached[at]), int(begins[at])) for at in np.flatnonzero(begins > reached)]


def _split_segments(places: pa.Table) -> list[tuple[str, _Offsets, _Offsets]]:
    """Return each segment of *places* with where its batches start and end, by where they start."""
    if not places.num_rows:
        return []
    names = places["segment"].combine_chunks().cast(pa.string()).dictionary_encode()
    segments = names.indices.to_numpy()
    offsets, ends = places["offset"].to_numpy(), places["next"].to_numpy()
    order = np.lexsort((offsets, segments))
    bounds = np.searchsorted(segments[order], np.arange(len(names.dictionary) + 1))
    parts = [order[bounds[at] : bounds[at + 1]] for at in range(len(names.dictionary))]
    return [
        (name, offsets[part], ends[part])
        for name, part in zip(names.dictionary.to_pylist(), parts, strict=True)
    ]


def _sorted_offsets(rows: pa.Table) -> tuple[_Offsets, _Offsets]:
    rows = rows.sort_by("offset")
    return rows["offset"].to_numpy(), rows["next"].to_numpy()


def removed_path(directory: str) -> str:
    """Return where the table of what was noted is, if there is one."""
    return os.path.join(os.path.dirname(table_paths(directory)[0]), "removed")


def _noted_ends(directory: str) -> dict[str, int]:
    """Return where what was noted ends, by segment: it begins where the tables ended then."""
    path = removed_path(directory)
    if not is_table(path):
        return {}
    rows = open_table(path, REMOVED_SCHEMA).read_rows(["segment", "end"])
    ends = rows.group_by("segment").aggregate([("end", "max")])
    return dict(zip(ends["segment"].to_pylist(), ends["end_max"].to_pylist(), strict=True))
