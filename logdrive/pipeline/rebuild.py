"""Files out of their rows, byte for byte (rule R2)."""

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.schema import EVENTS
from logdrive.pipeline.tables import open_existing, paths

COLUMNS = ("start", "end", "message", "eol", "original")
"""The columns of `events` that a file is rebuilt from."""


def row_bytes(rows: pa.Table) -> pa.ChunkedArray:
    """Return what stood in the file for each of *rows*: the exact bytes or the message, and the line end."""
    exact = pc.coalesce(rows["original"], rows["message"].cast(pa.binary()))
    return pc.binary_join_element_wise(exact, rows["eol"].cast(pa.string()).cast(pa.binary()), b"")


def rebuild(rows: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Yield the contiguous pieces of one source's file, as (position, bytes), in order of position.

    Raises ValueError where rows overlap or are not as long as their interval, as with messages that a processor changed.
    """
    rows = rows.select(COLUMNS).sort_by("start")
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    pieces = row_bytes(rows).combine_chunks()
    if not (pc.binary_length(pieces).to_numpy(zero_copy_only=False) == end - start).all():
        raise ValueError("some messages are not the file's own bytes")
    if (start[1:] < end[:-1]).any():
        raise ValueError("some rows overlap")
    breaks = [0, *(int(n) + 1 for n in (start[1:] > end[:-1]).nonzero()[0]), len(rows)]
    for first, after in pairwise(breaks):
        if first < after:
            yield int(start[first]), b"".join(pieces.slice(first, after - first).to_pylist())


def source_pieces(directory: str, source: str) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of one source's file out of the tables in *directory*. Raises ValueError where it has no rows, or as `rebuild`."""
    rows = open_existing(paths(directory)[0], EVENTS).read(COLUMNS, (pc.field("source") == source) & pc.field("start").is_valid())
    if not rows.num_rows:
        raise ValueError(f"no rows of a source {source}")
    yield from rebuild(rows)
