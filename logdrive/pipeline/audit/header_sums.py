"""The headers of `batches` as arrays, with the sums that the rows of each batch must have."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.position_hash import Integers, Mask, hash_positions
from logdrive.pipeline.decode.schema import FOREIGN

HEADER_COLUMNS: Final = (
    "batch",
    "source",
    "path",
    "kind",
    "previous",
    "position",
    "events",
    "skipped",
    "rows",
    "kept",
    "dropped",
)
"""The columns of `batches` that rows are compared with."""


@dataclass(frozen=True, slots=True)
class SummedHeaders:
    """Arrays that have one value for each batch."""

    batch: Integers
    data: Mask  # True: a batch of an agent's lines
    foreign: Mask  # True: a batch of a foreign peer
    placed: Mask  # True: it has positions
    wide: Integers  # bytes of the file that it speaks of; 0 if it has no positions
    events: Integers  # as the agent counts them
    skipped: Integers  # bytes that the agent says it dropped
    expected: Integers  # rows
    kept_bytes: Integers
    dropped_bytes: Integers
    arrows: Integers  # what the sum of hashes over the rows must be
    headers: pa.Table  # the header of each batch

    def describe(self, at: int) -> tuple[str | None, str | None, str, int | None, int | None]:
        """Return source, path, kind, previous and position of the batch at *at*."""
        row = self.headers.slice(at, 1).to_pylist()[0]
        return row["source"], row["path"], row["kind"], row["previous"], row["position"]


def sum_headers(headers: pa.Table) -> SummedHeaders:
    """Return *headers*, which have `HEADER_COLUMNS`, as arrays.

    A header that was read again, after the store was restored, keeps nothing and so adds nothing.
    A batch that has several headers nonetheless is described by the last of them.
    """
    ids = headers["batch"].to_numpy()
    # np.unique returns the first place of each, so look from the end
    batch, last = np.unique(ids[::-1], return_index=True)
    last = len(ids) - 1 - last
    place = np.searchsorted(batch, ids)

    def summed(values: Integers) -> Integers:
        total = np.zeros(len(batch), np.int64)
        np.add.at(total, place, values)
        return total

    kept, dropped = _Intervals.of(headers["kept"]), _Intervals.of(headers["dropped"])
    described = headers.take(pa.array(last))
    previous, position = described["previous"], described["position"]
    wide = pc.subtract(position, previous)
    kind = described["kind"]
    return SummedHeaders(
        batch,
        pc.equal(kind, "data").to_numpy(),
        pc.equal(kind, FOREIGN).to_numpy(),
        wide.is_valid().to_numpy(),
        wide.fill_null(0).to_numpy(),
        described["events"].to_numpy(),
        described["skipped"].to_numpy(),
        summed(headers["rows"].to_numpy()),
        summed(kept.bytes),
        summed(dropped.bytes),
        summed(kept.arrows - dropped.arrows),
        described,
    )


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Sums over the intervals of each header."""

    bytes: Integers
    arrows: Integers

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Self:
        """Sum up the intervals in *column*; null has none."""
        intervals = pc.list_flatten(column).combine_chunks()
        # null only in a damaged file
        start, end = (intervals.field(name).fill_null(0).to_numpy() for name in ("start", "end"))
        lengths = pc.list_value_length(column).fill_null(0).to_numpy()
        after = np.cumsum(lengths)
        first = after - lengths
        return cls(
            _sum_slices(end - start, first, after),
            _sum_slices(hash_positions(start) - hash_positions(end), first, after),
        )


def _sum_slices(values: Integers, first: Integers, after: Integers) -> Integers:
    """Return the sum of each of values[first:after]; overflows on the way cancel out."""
    reached = np.concatenate(([0], np.cumsum(values)))
    return reached[after] - reached[first]
