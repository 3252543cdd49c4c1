"""Compares the rows of two sources, of which one may be a copy of the other (rule A4)."""

from collections.abc import Iterable
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from logdrive.pipeline.audit.position_hash import Integers, mix_number

ROW_COLUMNS: Final = ("start", "end", "message", "original")
"""The columns of `events` that rows are compared by."""


_NO_END: Final = np.int64(-(1 << 63))


class ComparedRows(NamedTuple):
    """Rows of one source that have a start."""

    start: Integers  # in the file
    size: Integers  # bytes in the file; `_NO_END` if there is no end
    key: Integers  # hash of start, end, message and original; it differs from process to process

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Self:
        """Take them from *rows*, which have `ROW_COLUMNS`."""
        rows = rows.filter(rows["start"].is_valid())
        start, end = rows["start"].to_numpy(), rows["end"].fill_null(0).to_numpy()
        ended = rows["end"].is_valid().to_numpy(zero_copy_only=False)
        texts = zip(rows["message"].to_pylist(), rows["original"].to_pylist(), strict=True)
        text = np.fromiter(map(hash, texts), np.int64, rows.num_rows)
        place = mix_number(mix_number(start.view(np.uint64)) + end.view(np.uint64))
        return cls(start, np.where(ended, end - start, _NO_END), place.view(np.int64) ^ text)

    @classmethod
    def join(cls, parts: Iterable["ComparedRows"]) -> Self:
        """Return the rows of all *parts*."""
        empty = cls(*(np.empty(0, np.int64) for _ in cls._fields))
        return cls(*map(np.concatenate, zip(empty, *parts, strict=True)))


def measure_copy(ours: ComparedRows, theirs: ComparedRows) -> tuple[int, int]:
    """Return how many of *ours*, and of how many bytes, stand before the first that *theirs* lack.

    A row without an end equals none.
    """
    equal = np.isin(ours.key, theirs.key) & (ours.size != _NO_END)
    if not equal.all():
        equal &= ours.start < ours.start[~equal].min()
    return int(equal.sum()), int(ours.size[equal].sum())
