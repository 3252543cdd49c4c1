"""Extents in closed log files: on disk, one paged file per log file.

A page has a column of offsets, then one of places in the log, as little-endian i64. Rows that are
consecutive in a segment are consecutive in the file, so few numbers in memory say which rows belong
to which segment (`logdrive.store.index.segment`).
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from logdrive.store.index.pages import PageCache, PagedFile, PageFiles, extents_name
from logdrive.store.limits import StoreLimits

_WIDTH: Final = 16

Columns = tuple["array[int]", "array[int]"]


class PagedExtents:
    """The rows on disk, in *files*, which are known by the base of their log file."""

    def __init__(
        self, pages: PageFiles, limits: StoreLimits, files: dict[int, PagedFile] | None = None
    ) -> None:
        self.files = files or {}
        self._pages = pages
        self._cache: PageCache[Columns] = PageCache(pages, limits.pages, _decode_columns)

    def write_extents(
        self, base: int, offsets: "array[int]", places: "array[int]", as_of: int
    ) -> PagedFile:
        """Write the rows for the log file of *base*; changes nothing in memory. Raises OSError."""
        size = self._pages.per_page(_WIDTH)
        pages = (
            packed(offsets[at : at + size]) + packed(places[at : at + size])
            for at in range(0, len(offsets), size)
        )
        return self._pages.write(extents_name(base, as_of), _WIDTH, pages)

    def find(self, base: int, row: int, until: int, offset: int) -> int:
        """Return the last row in [row, until) whose offset is not larger than *offset*.

        The first row's offset must not be larger. Raises `StorageError`.
        """
        file = self.files[base]
        first, last = row // file.per_page, (until - 1) // file.per_page
        page = first
        if first < last:
            page += bisect_right(
                range(first + 1, last + 1),
                offset,
                key=lambda number: self._cache.page(file, number)[0][0],
            )
        offsets, start = self._cache.page(file, page)[0], page * file.per_page
        return (
            start
            + bisect_right(offsets, offset, max(row - start, 0), min(until - start, len(offsets)))
            - 1
        )

    def row(self, base: int, row: int) -> tuple[int, int]:
        """Return a row's offset and place. Raises `StorageError`."""
        file = self.files[base]
        page, at = divmod(row, file.per_page)
        offsets, places = self._cache.page(file, page)
        return offsets[at], places[at]

    def rows(self, base: int, row: int, until: int) -> Iterator[tuple[int, int]]:
        """Yield the offsets and places of the rows in [row, until). Raises `StorageError`."""
        file = self.files[base]
        while row < until:
            page, at = divmod(row, file.per_page)
            offsets, places = self._cache.page(file, page)
            count = min(len(offsets) - at, until - row)
            yield from zip(offsets[at : at + count], places[at : at + count], strict=True)
            row += count


def packed(column: "array[int]") -> bytes:
    """Return *column* as little-endian bytes."""
    if sys.byteorder == "big":
        column = array("q", column)
        column.byteswap()
    return column.tobytes()


def unpacked(data: bytes) -> "array[int]":
    """Return the numbers in *data*. Raises ValueError if its length is not a multiple of 8."""
    column = array("q")
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _decode_columns(rows: bytes) -> Columns:
    half = len(rows) // 2
    return unpacked(rows[:half]), unpacked(rows[half:])
