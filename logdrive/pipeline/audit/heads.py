"""The headers of `batches`, as sources are judged by them.

A trickle makes a header for a line or two: millions a day. Nearly all of them say only that the
next bytes of a file have come, so those of one source are put together, in arrays.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.position_hash import Integers, Mask
from logdrive.pipeline.decode.coverage import Interval

_NAMES = ("source", "host", "path", "origin", "resend")  # the same in headers that are put together


class Head(NamedTuple):
    """The columns of `batches` that sources are judged by; of one header, or of several."""

    segment: str
    offset: int  # of the header, in the segment
    kind: str
    source: str | None
    host: str | None
    path: str | None
    position: int | None  # in the file, behind the batch
    kept: list[Interval] | None
    dropped: list[Interval]  # of these, what the agent left out
    rows: int
    bytes: int
    received: int | None  # µs since 1970
    mark_start: int | None
    mark_end: int | None
    mark_reason: str | None
    mark_exact: bool | None
    resend: bool
    origin: str | None


def heads_from_table(table: pa.Table) -> list[Head]:
    """Return the rows of *table*, a part of `batches` with the columns of `Head`.

    Most headers say only that the next bytes of a file came. All of these that have the same
    source, host, path, origin and resend become two heads: the first that was received, and one for
    all later ones. It has the segment, offset and time of the last, the highest position, the sum
    of the rows, and all intervals, those that touch put together. `audit_sources` judges both forms
    alike.
    """
    usual = _usual(table)
    rest = heads_by_row(table.filter(pc.invert(usual)))
    return rest + _put_together(table.filter(usual))


def heads_by_row(table: pa.Table) -> list[Head]:
    """Return the rows of *table*, with the columns of `Head`, one by one: about 10 µs each."""
    columns = {name: table[name] for name in Head._fields}
    columns["received"] = columns["received"].cast(pa.int64())
    values = {name: column.to_pylist() for name, column in columns.items()}
    for name, none in (("kept", None), ("dropped", [])):
        values[name] = [none if found is None else _intervals(found) for found in values[name]]
    return [Head(*row) for row in zip(*(values[name] for name in Head._fields), strict=True)]


def _intervals(found: Iterable[Mapping[str, int | None]]) -> list[Interval]:
    """Return the intervals *found* in a header. Damaged ones, without bytes, are left out."""
    pairs = ((one["start"] or 0, one["end"] or 0) for one in found)
    return [(start, end) for start, end in pairs if start < end]


def _usual(table: pa.Table) -> pa.ChunkedArray:
    """Return which rows are headers of a source's data that say nothing else."""
    conditions = [
        pc.equal(table["kind"], "data"),
        table["source"].is_valid(),
        table["received"].is_valid(),
        pc.greater_equal(table["rows"], 0),
        *(table[name].is_null() for name in ("mark_start", "mark_end", "mark_reason")),
    ]
    return reduce(pc.and_, conditions)


def _put_together(table: pa.Table) -> list[Head]:
    if not table.num_rows:
        return []
    groups = _numbered(table, _NAMES)
    # in each group as they were received
    times = table["received"].cast(pa.int64()).to_numpy()
    offsets, segments = table["offset"].to_numpy(), _ranked(table["segment"])
    order = np.lexsort((offsets, segments, times, groups))
    begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
    lasts = np.append(begins[1:], len(order)) - 1
    firsts = heads_by_row(table.take(pa.array(order[begins])))

    several = np.flatnonzero(lasts > begins)
    later = np.ones(len(order), np.bool_)
    later[order[begins]] = False
    rows = np.where(later, table["rows"].to_numpy(), 0)[order]
    positions = table["position"].fill_null(0).to_numpy()[order]
    sums, ends = np.add.reduceat(rows, begins), np.maximum.reduceat(positions, begins)
    kept = _joined(table["kept"], groups, later)
    dropped = _joined(table["dropped"], groups, later)
    followed = [
        head._replace(
            rows=int(sums[group]),
            position=int(ends[group]),
            kept=kept.get(int(group), []),
            dropped=dropped.get(int(group), []),
        )
        for group, head in zip(
            several, heads_by_row(table.take(pa.array(order[lasts[several]]))), strict=True
        )
    ]
    return firsts + followed


def _numbered(table: pa.Table, names: Iterable[str]) -> Integers:
    """Return for each row which of the combinations of values of *names* it has, from 0 on."""
    numbers = np.zeros(table.num_rows, np.int64)
    for name in names:
        values = table[name].combine_chunks().dictionary_encode("encode")
        codes = values.indices.to_numpy().astype(np.int64)
        numbers = np.unique(numbers * len(values.dictionary) + codes, return_inverse=True)[1]
    return numbers


def _ranked(texts: pa.ChunkedArray) -> Integers:
    """Return the rank of each of *texts* among them; null is not among them."""
    values = texts.combine_chunks().dictionary_encode()
    names = values.dictionary.to_pylist()
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return rank[np.asarray(values.indices, np.int64)]


def _joined(column: pa.ChunkedArray, groups: Integers, wanted: Mask) -> dict[int, list[Interval]]:
    """Return the intervals in the rows of *column* that are *wanted*, by the row's group.

    Those that touch are one: neither their sum nor what they overlap changes. Damaged ones, without
    bytes, are left out.
    """
    lists = column.combine_chunks()
    flat = pc.list_flatten(lists)
    start, end = (flat.field(name).fill_null(0).to_numpy() for name in ("start", "end"))
    row = pc.list_parent_indices(lists).to_numpy()
    here = wanted[row] & (start < end)
    start, end, group = start[here], end[here], groups[row[here]]
    if not len(start):
        return {}
    order = np.lexsort((end, start, group))
    start, end, group = start[order], end[order], group[order]
    begins = np.flatnonzero(np.append(True, (group[1:] != group[:-1]) | (start[1:] != end[:-1])))
    lasts = np.append(begins[1:], len(start)) - 1
    joined: dict[int, list[Interval]] = {}
    for number, first, last in zip(
        group[begins].tolist(), start[begins].tolist(), end[lasts].tolist(), strict=True
    ):
        joined.setdefault(number, []).append((first, last))
    return joined
