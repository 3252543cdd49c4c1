"""Puts on disk what the index need not keep in memory: the extents in closed log files, and the
numbers changed since the last time.

In three steps: what there is to write is gathered where the index is changed; it is written
elsewhere, while the index stays as it is; and once it is durable, the index lets go of it. A step
that fails leaves everything in memory, for the next time.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from logdrive.store.index.index import Index
from logdrive.store.index.pages import PagedFile
from logdrive.store.index.runs import ExtentRun
from logdrive.store.index.segment import SegmentIndex
from logdrive.store.log.files import LogFiles


class Stretch(NamedTuple):
    """Rows [first, end) in the memory of *segment*, which follow each other there and lie in the
    log file of *base*.
    """

    segment: SegmentIndex
    base: int
    first: int
    end: int


@dataclass(slots=True)
class Spill:
    """What is to be written, *as_of* an end of the log: all rows below *to*.

    *files* and *runs* are what there is then.
    """

    as_of: int
    to: int
    stretches: list[Stretch]
    changed: dict[int, dict[bytes, int]]
    runs: list[PagedFile]
    files: dict[int, PagedFile] = field(default_factory=dict)


def gather_spill(index: Index, as_of: int) -> Spill:
    """Return what of *index*, which is that of a log that ends at *as_of*, belongs on disk;
    nanoseconds for each row in memory.
    """
    to = index.files.bases[-1]
    segments = index.by_number.values()
    stretches = [
        stretch
        for segment in segments
        if segment.offsets
        for stretch in _stretches(index, segment, to)
    ]
    changed = {segment.number: segment.numbers for segment in segments if segment.numbers}
    return Spill(as_of, to, stretches, changed, index.cold.runs)


def write_spill(index: Index, spill: Spill) -> None:
    """Write it; changes nothing else. Raises OSError, `DamagedError`."""
    by_base: dict[int, list[Stretch]] = {}
    for stretch in spill.stretches:
        by_base.setdefault(stretch.base, []).append(stretch)
    for base, stretches in by_base.items():
        offsets, places = array("q"), array("q")
        for segment, _, first, end in stretches:
            offsets.extend(segment.offsets[first:end])
            places.extend(segment.places[first:end])
        spill.files[base] = index.extents.write_extents(base, offsets, places, spill.as_of)
    spill.runs = index.cold.write_run(spill.changed, index.by_number, spill.as_of)


def apply_spill(index: Index, spill: Spill) -> None:
    """Let *index* go on with what was written, and forget files of which it needs nothing any
    more.
    """
    rows = dict.fromkeys(spill.files, 0)
    chunks: list[ExtentRun] = []
    for segment, base, first, end in spill.stretches:
        chunks.append(ExtentRun(segment.offsets[first], base, rows[base], end - first, 0))
        rows[base] += end - first
    for (segment, _, first, end), chunk in zip(
        reversed(spill.stretches), reversed(chunks), strict=True
    ):
        del segment.offsets[first:end]
        del segment.places[first:end]
        segment.chunks.add(chunk)
    files = index.files
    kept = {base: file for base, file in index.extents.files.items() if files.live.get(base)}
    index.extents.files.clear()
    index.extents.files.update(kept | spill.files)
    index.paged_to = spill.to
    index.cold.use_runs(spill.runs, spill.changed)
    for number in spill.changed:
        segment = index.by_number[number]
        segment.numbers, segment.cold = {}, True


def _stretches(index: Index, segment: SegmentIndex, to: int) -> Iterator[Stretch]:
    """Yield what of *segment* lies below *to*, in order."""
    row = 0
    while row < len(segment.offsets):
        end = bisect_left(segment.offsets, segment.block_end(row))
        parts = _parts(index.files, segment.places, row, end)
        for base, group in groupby(parts, key=itemgetter(0)):
            stretch = list(group)
            if base < to:
                yield Stretch(segment, base, stretch[0][1], stretch[-1][2])
        row = end


def _parts(
    files: LogFiles, places: "array[int]", first: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """Yield [first, end) in parts that lie in one log file each, with its base: found by halving,
    as they are mostly long.
    """
    base, until = files.span_of(places[first])
    part = places[first:end]
    if base <= min(part) and max(part) < until:
        yield base, first, end
    else:
        middle = (first + end) // 2
        yield from _parts(files, places, first, middle)
        yield from _parts(files, places, middle, end)
