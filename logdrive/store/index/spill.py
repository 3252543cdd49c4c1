"""Spills the index to disk: extents in closed log files, and numbers changed since the last time.

In three steps. `gather_spill` collects what to write, on the thread that changes the index.
`write_spill` writes it elsewhere, while the index does not change. `apply_spill`, once it is
durable, drops it from the index's memory. If a step fails, everything stays in memory for the next
time.
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
    """Consecutive rows [first, end) in the memory of *segment*, in the log file of *base*."""

    segment: SegmentIndex
    base: int
    first: int
    end: int


@dataclass(slots=True)
class Spill:
    """What is to be written for a log that ends at *as_of*: all rows for the log before *to*.

    *files* and *runs* are the new paged files.
    """

    as_of: int
    to: int
    stretches: list[Stretch]
    changed: dict[int, dict[bytes, int]]
    runs: list[PagedFile]
    files: dict[int, PagedFile] = field(default_factory=dict)


def gather_spill(index: Index, as_of: int) -> Spill:
    """Return what of *index*, of a log that ends at *as_of*, belongs on disk.

    Costs nanoseconds per row in memory.
    """
    to = index.files.bases[-1]
    segments = index.by_number.values()
    stretches = [
        stretch
        for segment in segments
        if segment.offsets
        for stretch in _find_stretches(index, segment, to)
    ]
    changed = {segment.number: segment.numbers for segment in segments if segment.numbers}
    return Spill(as_of, to, stretches, changed, index.stored_numbers.runs)


def write_spill(index: Index, spill: Spill) -> None:
    """Write *spill* to disk. Raises OSError, `StoreDamagedError`."""
    by_base: dict[int, list[Stretch]] = {}
    for stretch in spill.stretches:
        by_base.setdefault(stretch.base, []).append(stretch)
    for base, stretches in by_base.items():
        offsets, places = array("q"), array("q")
        for segment, _, first, end in stretches:
            offsets.extend(segment.offsets[first:end])
            places.extend(segment.places[first:end])
        spill.files[base] = index.extents.write_extents(base, offsets, places, spill.as_of)
    spill.runs = index.stored_numbers.write_run(spill.changed, index.by_number, spill.as_of)


def apply_spill(index: Index, spill: Spill) -> None:
    """Make *index* use what was written, and forget the files that it no longer needs."""
    # rows counted so far in the new file of each log file
    rows = dict.fromkeys(spill.files, 0)
    chunks: list[ExtentRun] = []
    for segment, base, first, end in spill.stretches:
        chunks.append(ExtentRun(segment.offsets[first], base, rows[base], end - first, 0))
        rows[base] += end - first

    # from the end on, so that the other stretches' rows do not move
    for (segment, _, first, end), chunk in zip(
        reversed(spill.stretches), reversed(chunks), strict=True
    ):
        segment.on_rows_stored(first, end, chunk)

    files = index.files
    kept = {base: file for base, file in index.extents.files.items() if files.live.get(base)}
    index.extents.files.clear()
    index.extents.files.update(kept | spill.files)
    index.paged_to = spill.to
    index.stored_numbers.use_runs(spill.runs, spill.changed)
    for number in spill.changed:
        index.by_number[number].on_numbers_stored()


def _find_stretches(index: Index, segment: SegmentIndex, to: int) -> Iterator[Stretch]:
    """Yield the stretches of *segment* in the log before *to*, in order."""
    row = 0
    while row < len(segment.offsets):
        end = bisect_left(segment.offsets, segment.block_end(row))
        parts = _split_by_file(index.files, segment.places, row, end)
        for base, group in groupby(parts, key=itemgetter(0)):
            stretch = list(group)
            if base < to:  # rows of the file that still grows stay in memory
                yield Stretch(segment, base, stretch[0][1], stretch[-1][2])
        row = end


def _split_by_file(
    files: LogFiles, places: "array[int]", first: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the rows [first, end) in parts that are in one log file each, with its base.

    They are found by halving, since most parts are long.
    """
    base, until = files.span_of(places[first])
    part = places[first:end]
    if base <= min(part) and max(part) < until:
        yield base, first, end
    else:
        middle = (first + end) // 2
        yield from _split_by_file(files, places, first, middle)
        yield from _split_by_file(files, places, middle, end)
