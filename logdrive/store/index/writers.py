"""Writers' numbers on disk, in sorted runs: an LSM tree.

Each index checkpoint writes the numbers that changed since the one before to a new run. It merges
the newest runs into it as long as they are not several times its size. So there are few runs, and a
number is rewritten only a few times, however many numbers there are.

A row is the segment's number (u32), the writer and its number (i64), big-endian, so that rows sort
as bytes. A number that is `ABSENT` hides those in older runs. Rows of deleted segments are dropped
when runs are merged.
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
"""Numbers by segment, then by writer."""

_ROW: Final = struct.Struct(">I16sq")
_KEY: Final = 20
_NONE: Final = _ROW.pack(0, bytes(16), ABSENT)[_KEY:]
_GROWTH: Final = 4
"""A run is merged into a new one that has at least 1/N of its rows."""


class WriterNumbers:
    """The numbers in *runs*, the oldest first."""

    def __init__(
        self, files: PageFiles, limits: StoreLimits, runs: Sequence[PagedFile] = ()
    ) -> None:
        self.runs = list(runs)
        self._files = files
        self._cache: PageCache[bytes] = PageCache(files, limits.pages, bytes)
        # limit on the numbers in `_warm`
        self._most = limits.numbers
        # numbers changed before the last checkpoint, by segment and writer
        self._warm: dict[tuple[int, bytes], int] = {}

    def find_number(self, segment: int, writer: bytes) -> int:
        """Return a number, `ABSENT` if there is none. Raises `StorageError`."""
        warm = self._warm.get((segment, writer))
        if warm is not None:
            return warm
        key = segment.to_bytes(4, "big") + writer
        # the newest run that has the key decides
        for run in reversed(self.runs):
            if (value := self._find(run, key)) is not None:
                return value
        return ABSENT

    def all_numbers(self) -> dict[int, dict[bytes, int]]:
        """Return all numbers. Raises `StorageError`."""
        numbers: dict[int, dict[bytes, int]] = {}
        for run in self.runs:
            for number in range(run.pages):
                for segment, writer, value in _ROW.iter_unpack(self._cache.page(run, number)):
                    numbers.setdefault(segment, {})[writer] = value
        return {
            segment: {w: value for w, value in values.items() if value != ABSENT}
            for segment, values in numbers.items()
        }

    def write_run(self, changed: Numbers, living: Container[int], as_of: int) -> list[PagedFile]:
        """Write *changed* as a run, for a log that ends at *as_of*; return all runs with it.

        Changes nothing in memory. Costs about 1 µs per row. A damaged run is not merged but kept as
        it is. Raises OSError.
        """
        rows = [
            _ROW.pack(segment, writer, number)
            for segment, numbers in sorted(changed.items())
            for writer, number in sorted(numbers.items())
        ]
        if not rows:
            return self.runs

        # merge with the newest runs, unless they are much larger
        kept = list(self.runs)
        per_page, size = self._files.per_page(_ROW.size), len(rows)
        merged: list[PagedFile] = []
        while kept and kept[-1].rows < max(per_page, _GROWTH * size):
            merged.append(kept.pop())
            size += merged[-1].rows
        while True:
            sources = [iter(rows), *(self._rows(run) for run in merged)]
            pages = _group_pages(_merge_rows(sources, living, oldest=not kept), per_page)
            try:
                written = self._files.write(numbers_name(as_of), _ROW.size, pages)
            # a damaged run must not keep the index from being written
            except StoreDamagedError:
                kept.append(merged.pop())
            else:
                return [*kept, written] if written.rows else kept

    def use_runs(self, runs: Sequence[PagedFile], changed: Numbers) -> None:
        """Continue with *runs*, which include *changed*.

        Some of the changed numbers stay in memory, as they may change again.
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


def _merge_rows(
    sources: Sequence[Iterator[bytes]], living: Container[int], *, oldest: bool
) -> Iterator[bytes]:
    """Yield the newest row of each key; *sources* are ordered from new to old.

    If *oldest* is True they include the oldest run, and `ABSENT` rows have nothing to hide.
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


def _group_pages(rows: Iterator[bytes], per_page: int) -> Iterator[bytes]:
    while page := b"".join(islice(rows, per_page)):
        yield page
