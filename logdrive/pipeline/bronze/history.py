"""Reads from the table `batches` what has been read so far.

That is the coverage of every source, the headers of a segment, and unfinished events in pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logdrive.model.pieces import UnfinishedEvents
from logdrive.pipeline.decode.coverage import Coverage
from logdrive.pipeline.decode.schema import FOREIGN
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import name_read


@dataclass(frozen=True, slots=True)
class KnownHeader:
    """One header that was read, and that the segment should still have (rule R5)."""

    offset: int  # where it is in its segment
    next: int  # where the next one is
    crc: int  # CRC-32 of its payload
    batch: int  # its batch's id


def read_coverage(batches: AppendTable) -> Coverage:
    """Return the coverage of all rows that were kept (rule A2)."""
    cover = Coverage()
    cover_kept(cover, batches.read_rows(["source", "kept"], pc.field("kind") == "data"))
    return cover


def cover_added(cover: Coverage, path: str) -> None:
    """Add to *cover* what the headers in the file at *path*, of the table `batches`, have kept.

    Raises `StorageError`.
    """
    with name_read(path):
        table = pq.read_table(path, columns=["source", "kept", "kind"], partitioning=None)
    cover_kept(cover, table.filter(pc.equal(table["kind"], "data")))


def cover_kept(cover: Coverage, table: pa.Table) -> None:
    """Add to *cover* what the headers in *table*, those of data, have kept.

    Neighboring intervals are joined in Arrow, so that Python sees few of them.
    """
    if not table.num_rows:
        return
    table = table.combine_chunks()

    # one row for each interval, by source and position
    kept = table["kept"].combine_chunks()
    flat = pa.table(
        {
            "source": table["source"].combine_chunks().take(pc.list_parent_indices(kept)),
            "start": pc.struct_field(pc.list_flatten(kept), "start"),
            "end": pc.struct_field(pc.list_flatten(kept), "end"),
        }
    ).sort_by([("source", "ascending"), ("start", "ascending")])
    sources = flat["source"].combine_chunks().dictionary_encode()
    codes, start, end = sources.indices.to_numpy(), flat["start"].to_numpy(), flat["end"].to_numpy()
    if not len(codes):  # batches whose bytes were all there before
        return

    # an interval that begins where the one before it ends, in the same source, is joined to it
    heads = np.flatnonzero(
        np.concatenate(([True], (codes[1:] != codes[:-1]) | (start[1:] != end[:-1])))
    )
    names = sources.dictionary.to_pylist()
    for first, last in zip(heads, [*(heads[1:] - 1), len(codes) - 1], strict=True):
        cover.cover_interval(names[codes[first]], int(start[first]), int(end[last]))


def read_header_chain(batches: AppendTable, segment: str, end: int) -> list[KnownHeader]:
    """Return the headers of *segment* that lead up to *end*, in order.

    Headers that were read before the store was restored from a backup are not among them.
    """
    table = batches.read_rows(
        ["offset", "next", "crc", "batch", "committed"], pc.field("segment") == segment
    ).sort_by("committed")
    # after a restore there may be several headers that end at one place: the latest counts
    ending = {
        row["next"]: KnownHeader(**row) for row in table.drop_columns("committed").to_pylist()
    }

    # from *end* backwards: each header is found by where the next one is
    chain: list[KnownHeader] = []
    while end > 0 and (known := ending.get(end)) is not None:
        chain.append(known)
        end = known.offset
    return chain[::-1]


def read_stores(batches: AppendTable, stream: str, known: Sequence[KnownHeader]) -> set[str]:
    """Return the stores that the headers *known* of *stream* name, and those of its last commit."""
    rows = batches.read_rows(["batch", "store", "committed"], pc.field("stream") == stream)
    mine = pc.is_in(rows["batch"], pa.array([one.batch for one in known], pa.int64()))
    last = pc.equal(rows["committed"], pc.max(rows["committed"]))
    stores = rows["store"].filter(pc.or_(mine, pc.fill_null(last, False)))
    return {store for store in pc.unique(stores).to_pylist() if store}


def read_header_at(batches: AppendTable, segment: str, offset: int) -> KnownHeader | None:
    """Return the header at *offset* of *segment*, the latest if there were several; else None."""
    table = batches.read_rows(
        ["offset", "next", "crc", "batch", "committed"],
        (pc.field("segment") == segment) & (pc.field("offset") == offset),
    ).sort_by("committed")
    rows = table.drop_columns("committed").to_pylist()
    return KnownHeader(**rows[-1]) if rows else None


def read_batch_ends(batches: AppendTable, segment: str) -> list[int]:
    """Return the offsets in *segment* at which batches end, and others begin, in order."""
    table = batches.read_rows(["next"], pc.field("segment") == segment)
    return [int(end) for end in np.unique(table["next"].to_numpy())]


def read_unfinished_events(
    batches: AppendTable, segment: str, known: Sequence[KnownHeader], within: int
) -> UnfinishedEvents:
    """Return the events in pieces that have begun in *known* and are not whole there (rule R6).

    *known* are headers of *segment*, in order; *within* is how far apart an event's pieces may be.
    """
    unfinished = UnfinishedEvents(within)
    if not known:
        return unfinished

    # a piece is at most so far before the last one of its event
    near = pc.field("offset") >= known[-1].next - within
    names = ["offset", "next", "batch", "mark_start", "mark_end", "mark_reason", "mark_exact"]
    pieces = (
        (pc.field("segment") == segment)
        & (pc.field("kind") == FOREIGN)
        & pc.field("mark_start").is_valid()
        & near
    )
    table = batches.read_rows(names, pieces).sort_by("offset")

    # other rows are of headers that were lost when the store was restored
    batch_ids = {one.batch for one in known} if table.num_rows else set()
    for row in table.to_pylist():
        if row["batch"] in batch_ids:
            unfinished.add_piece(
                row["offset"],
                row["next"],
                row["mark_reason"],
                row["mark_start"],
                row["mark_end"],
                last=row["mark_exact"],
            )
    return unfinished
