"""Which bytes of a source lie before the beginning of tables that begin at a time.

Of such tables, until what lies before is filled, a source is judged from the first byte on that the
tables have from behind their beginning. What lies before that is not lost: it was not asked for.

That is right only of what was stored before the beginning. Where something behind the beginning was
removed before it was read, a source that was heard of after that alone may have begun in it: such
sources are judged from their first byte.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.bronze.beginnings import Beginning
from logdrive.pipeline.decode.schema import BATCHES, FOREIGN

PLACE_SCHEMA = pa.schema(
    [
        BATCHES.field(name)
        for name in (
            "stream",
            "segment",
            "offset",
            "next",
            "kind",
            "source",
            "previous",
            "position",
            "received",
        )
    ]
)
"""The columns of `batches` that are read."""


def find_asked_parts(headers: pa.Table, beginnings: Mapping[str, Beginning]) -> dict[str, int]:
    """Return the position from which on each source is judged that is not judged from 0 on.

    *headers* are rows of `batches` with `PLACE_SCHEMA`; *beginnings* are those of the tables, by
    segment, of which some part is not filled yet.
    """
    # a stream that the tables were begun with has nothing before their beginning
    streams = pa.array({one.stream for one in beginnings.values()})
    headers = headers.filter(pc.is_in(headers["stream"], streams))
    received = headers["received"].cast(pa.int64()).fill_null(0)  # µs since 1970
    headers = headers.set_column(headers.column_names.index("received"), "received", received)
    behind, before = _part(headers, beginnings)
    unbroken = _unbroken_until(behind, beginnings)

    filled = _by_source(before, "position", "max")
    heard = _by_source(behind, "received", "min")
    lowest = _by_source(behind, "previous", "min")
    asked = {name: end for name, end in filled.items() if name not in heard}
    for name, since in heard.items():
        if unbroken is None or since <= unbroken:
            asked[name] = lowest[name]
    return {name: position for name, position in asked.items() if position}


def _part(headers: pa.Table, beginnings: Mapping[str, Beginning]) -> tuple[pa.Table, pa.Table]:
    """Return the headers from behind the tables' beginning, and those from before it."""
    places = headers["segment"].combine_chunks().dictionary_encode()
    begun = [beginnings.get(name) for name in places.dictionary.to_pylist()]
    offsets = np.array([0 if one is None else one.offset for one in begun], np.int64)
    first = offsets[places.indices.to_numpy()] if len(offsets) else np.empty(0, np.int64)
    is_behind = pa.array(headers["offset"].to_numpy() >= first)
    return headers.filter(is_behind), headers.filter(pc.invert(is_behind))


def _by_source(headers: pa.Table, column: str, what: str) -> dict[str, int]:
    """Return the least or the greatest value of *column* by source, of those with positions."""
    placed = headers.filter(
        pc.and_(pc.not_equal(headers["kind"], FOREIGN), pc.is_valid(headers["previous"]))
    )
    grouped = placed.group_by("source").aggregate([(column, what)])
    rows = zip(grouped["source"].to_pylist(), grouped[f"{column}_{what}"].to_pylist(), strict=True)
    return {source: value for source, value in rows if source is not None}


def _unbroken_until(behind: pa.Table, beginnings: Mapping[str, Beginning]) -> int | None:
    """Return a time, in µs since 1970, up to which nothing behind the beginning is missing.

    None if nothing is at all. *behind* are headers from behind it.
    """
    begun = min(one.start_ms for one in beginnings.values()) * 1000
    breaks: list[int] = []
    for segment in pc.unique(behind["segment"]).to_pylist():
        mine = behind.filter(pc.equal(behind["segment"], segment)).sort_by("offset")
        known = beginnings.get(segment)
        first = np.array([0 if known is None else known.offset])
        # where the headers before each one lead, at the furthest
        reached = np.maximum.accumulate(np.concatenate((first, mine["next"].to_numpy())))[:-1]
        missing = np.flatnonzero(mine["offset"].to_numpy() > reached)
        if len(missing):
            heard = mine["received"].slice(0, int(missing[0]))
            breaks.append(max(begun, pc.max(heard).as_py() or 0))
    return min(breaks, default=None)
