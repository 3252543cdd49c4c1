"""Which bytes of a source lie before the beginning of tables that begin at a time.

Of such tables, until what lies before is filled, a source is judged from the first byte on that the
tables have from behind their beginning. What lies before that is not lost: it was not asked for.

That is right only of what was stored before the beginning. Where something behind the beginning was
removed before it was read, a source that was heard of after that alone may have begun in it: such
sources are judged from their first byte.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from logdrive.pipeline.bronze.beginnings import Beginning
from logdrive.pipeline.decode.schema import BATCHES, FOREIGN

PLACE_COLUMNS = (
    "stream",
    "segment",
    "offset",
    "next",
    "kind",
    "source",
    "previous",
    "position",
    "received",
    "mark_start",
)
"""The columns of `batches` that are read."""
PLACE_SCHEMA = pa.schema([BATCHES.field(name) for name in PLACE_COLUMNS])


class _Place(NamedTuple):
    """A header: where it is, and what it is about."""

    stream: str
    segment: str
    offset: int
    next: int
    kind: str
    source: str | None
    previous: int | None
    position: int | None
    received: int | None  # µs since 1970
    mark_start: int | None


class _Heard(NamedTuple):
    """What the tables have of a source from behind their beginning."""

    since: int  # µs since 1970
    lowest: int  # position in its file


def find_asked_parts(headers: pa.Table, beginnings: Mapping[str, Beginning]) -> dict[str, int]:
    """Return the position from which on each source is judged that is not judged from 0 on.

    *headers* are rows of `batches` with `PLACE_COLUMNS`; *beginnings* are those of the tables, of
    which some part is not filled yet.
    """
    streams = {one.stream for one in beginnings.values()}
    # a stream that the tables were begun with has nothing before their beginning
    places = [place for place in _places(headers) if place.stream in streams]
    unbroken = _unbroken_until(places, beginnings)
    heard: dict[str, _Heard] = {}
    filled: dict[str, int] = {}  # the furthest position from before the beginning
    for place in places:
        if place.source is None or place.kind == FOREIGN:
            continue
        if _is_behind(place, beginnings):
            lowest = place.previous if place.previous is not None else place.mark_start or 0
            when = place.received or 0
            known = heard.get(place.source, _Heard(when, lowest))
            heard[place.source] = _Heard(min(known.since, when), min(known.lowest, lowest))
        else:
            end = place.position or 0
            filled[place.source] = max(filled.get(place.source, 0), end)

    asked = {name: end for name, end in filled.items() if name not in heard}
    for name, known in heard.items():
        if unbroken is None or known.since <= unbroken:
            asked[name] = known.lowest
    return {name: position for name, position in asked.items() if position}


def _places(headers: pa.Table) -> list[_Place]:
    """Return *headers* by segment, in order."""
    columns = {name: headers[name] for name in PLACE_COLUMNS}
    columns["received"] = columns["received"].cast(pa.int64())
    rows = zip(*(columns[name].to_pylist() for name in PLACE_COLUMNS), strict=True)
    return sorted((_Place(*row) for row in rows), key=lambda place: (place.segment, place.offset))


def _is_behind(place: _Place, beginnings: Mapping[str, Beginning]) -> bool:
    first = beginnings.get(place.segment)
    return first is None or place.offset >= first.offset


def _unbroken_until(places: Iterable[_Place], beginnings: Mapping[str, Beginning]) -> int | None:
    """Return a time, in µs since 1970, up to which nothing behind the beginning is missing.

    None if nothing is at all. *places* are in order, segment by segment.
    """
    begun = min(one.start_ms for one in beginnings.values()) * 1000
    breaks: list[int] = []
    reached: dict[str, tuple[int, int]] = {}  # where headers lead, and when the last was received
    for place in places:
        if not _is_behind(place, beginnings):
            continue
        first = beginnings.get(place.segment)
        end, when = reached.get(place.segment, (0 if first is None else first.offset, begun))
        if place.offset > end:
            breaks.append(when)
        reached[place.segment] = (max(end, place.next), max(when, place.received or 0))
    return min(breaks, default=None)
