"""Writers' numbers that did not change since the last index: on disk, in sorted runs.

Each index that is written puts the numbers changed since the one before into a new run, together
with the newest runs there as long as these are not several times its size: so there are few runs,
and a number is written again only a few times, however many there are. A row is the segment's
number (u32), the writer and its number (i64), big-endian so that rows sort as bytes; a number that
is `ABSENT` hides those in older runs. What belongs to segments that are gone is left out when runs
are merged.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Final

from logdrive.model.numbers import ABSENT
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.pages import PageCache, PagedFile, PageFiles, numbers_name
from logdrive.store.limits import StoreLimits

Numbers = Mapping[int, Mapping[bytes, int]]
"""By segment, then by writer."""

_ROW: Final = struct.Struct(">I16sq")
_KEY: Final = 20
_NONE: Final = _ROW.pack(0, bytes(16), ABSENT)[_KEY:]
_GROWTH: Final = 4
"""A run is written again together with newer ones once these have one part in so many of its
rows.
"""


class WriterNumbers:
    """The numbers in *runs*, the oldest first."""

    def __init__(
        self, files: PageFiles, limits: StoreLimits, runs: Sequence[PagedFile] = ()
    ) -> None:
        self.runs = list(runs)
        self._files = files
        self._cache: PageCache[bytes] = PageCache(files, limits.pages, bytes)
        self._most = limits.numbers
        self._warm: dict[tuple[int, bytes], int] = {}

    def find_number(self, segment: int, writer: bytes) -> int:
        """Return a number, `ABSENT` for none. Raises `StorageError`."""
        warm = self._warm.get((segment, writer))
        if warm is not None:
            return warm
        key = segment.to_bytes(4, "big") + writer
        for run in reversed(self.runs):
            if (found := self._find(run, key)) is not None:
                return found
        return ABSENT

    def all_numbers(self) -> dict[int, dict[bytes, int]]:
        """Return all of them. Raises `StorageError`."""
        found: dict[int, dict[bytes, int]] = {}
        for run in self.runs:
            for number in range(run.pages):
                for segment, writer, value in _ROW.iter_unpack(self._cache.page(run, number)):
                    found.setdefault(segment, {})[writer] = value
        return {
            segment: {w: value for w, value in values.items() if value != ABSENT}
            for segment, values in found.items()
        }

    def write_run(self, changed: Numbers, living: Container[int], as_of: int) -> list[PagedFile]:
        """Write a run of what *changed*, in a log that ends at *as_of*, and return the runs that
        there are with it.

        Reads and writes, but changes nothing here. About 1 µs for each row. A run that is damaged
        stays as it is. Raises OSError.
        """
        rows = [
            _ROW.pack(segment, writer, number)
            for segment, numbers in sorted(changed.items())
            for writer, number in sorted(numbers.items())
        ]
        if not rows:
            return self.runs
        kept = list(self.runs)
        per_page, size = self._files.per_page(_ROW.size), len(rows)
        merged: list[PagedFile] = []
        while kept and kept[-1].rows < max(per_page, _GROWTH * size):
            merged.append(kept.pop())
            size += merged[-1].rows
        while True:
            sources = [iter(rows), *(self._rows(run) for run in merged)]
            pages = _paged(_merged(sources, living, oldest=not kept), per_page)
            try:
                written = self._files.write(numbers_name(as_of), _ROW.size, pages)
            # concerns what that run tells, and should keep no index from being written
            except StoreDamagedError:
                kept.append(merged.pop())
            else:
                return [*kept, written] if written.rows else kept

    def use_runs(self, runs: Sequence[PagedFile], changed: Numbers) -> None:
        """Go on with *runs*, which now have what *changed*; some of that stays in memory, as it may
        change again.
        """
        self.runs = list(runs)
        if changed:
            latest = (
                (segment, writer, number)
                for segment, numbers in changed.items()
                for writer, number in numbers.items()
            )
            self._warm = {
                (segment, writer): number for segment, writer, number in islice(latest, self._most)
            }

    def _find(self, run: PagedFile, key: bytes) -> int | None:
        at = (
            bisect_right(
                range(run.pages), key, key=lambda number: self._cache.page(run, number)[:_KEY]
            )
            - 1
        )
        if at < 0:
            return None
        rows = self._cache.page(run, at)
        row = (
            bisect_left(
                range(0, len(rows), _ROW.size), key, key=lambda start: rows[start : start + _KEY]
            )
            * _ROW.size
        )
        if rows[row : row + _KEY] != key:
            return None
        return int(_ROW.unpack_from(rows, row)[2])

    def _rows(self, run: PagedFile) -> Iterator[bytes]:
        for number in range(run.pages):
            page = self._files.read(run, number)
            for start in range(0, len(page), _ROW.size):
                yield page[start : start + _ROW.size]


def _merged(
    sources: Sequence[Iterator[bytes]], living: Container[int], *, oldest: bool
) -> Iterator[bytes]:
    """Yield the newest row of each key; the sources go from new to old, and where the *oldest* is
    among them nothing need be hidden.
    """
    before = b""
    for row in merge(*sources, key=_key):
        key = row[:_KEY]
        if key == before:
            continue
        before = key
        if int.from_bytes(key[:4], "big") in living and not (oldest and row[_KEY:] == _NONE):
            yield row


def _key(row: bytes) -> bytes:
    return row[:_KEY]


def _paged(rows: Iterator[bytes], per_page: int) -> Iterator[bytes]:
    while page := b"".join(islice(rows, per_page)):
        yield page
