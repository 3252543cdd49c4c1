"""Reads appends from a store's log files, in a process that does not have the store open.

The files may go at any moment: retention and reclaiming belong to the store's process. But an entry
never changes where it is, and an open file keeps its bytes. So whatever is read is either what was
appended, by its CRC, or an error, upon which the store itself is to be asked.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from errno import ENOENT
from itertools import pairwise
from typing import Final, Self
from uuid import UUID

from logdrive.host.disk import Disk, File
from logdrive.model.units import KIB, MIB
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.segment import Extent
from logdrive.store.log.files import bases_in, file_name
from logdrive.store.log.format import ENTRY_HEAD, crc_of, decode_head, seed_of

_WINDOW: Final = 1 * MIB  # bytes of one read that has several entries
_GAP: Final = 4 * KIB  # bytes of other segments that it reads and drops between two of them


class LocalLog:
    """The log files in *directory*, as they are now, of the store with *store_id*.

    Use it in a `with` block, and for a short time: later files are not seen. Raises OSError.
    """

    def __init__(self, disk: Disk, directory: str, store_id: UUID) -> None:
        self._disk = disk
        self._directory = directory
        self._seed = seed_of(store_id)
        self._bases = bases_in(disk.names(directory))
        if not self._bases:
            raise FileNotFoundError(ENOENT, "no log files", directory)
        # open files by base
        self._open: dict[int, File] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def read_appends(self, extents: Sequence[Extent]) -> Iterator[tuple[int, bytes]]:
        """Yield the data of *extents*, which follow one another, each piece with its offset.

        A piece is one long append, or several short ones. Costs a read for each piece, and a CRC.
        Raises `StoreDamagedError` where the log has something else, also because a file is gone,
        and OSError.
        """
        for group in self._groups(extents):
            data = self._read_one(group[0]) if len(group) == 1 else self._read_several(group)
            yield group[0].offset, data

    def _groups(self, extents: Sequence[Extent]) -> Iterator[Sequence[Extent]]:
        """Split *extents* into those that one read of at most `_WINDOW` bytes gets."""
        first = 0
        for at, (before, extent) in enumerate(pairwise(extents), 1):
            start = extents[first].place - ENTRY_HEAD
            gap = extent.place - ENTRY_HEAD - before.place - before.length
            if (
                not 0 <= gap <= _GAP
                or extent.place + extent.length - start > _WINDOW
                or self._base_of(extent.place) != self._base_of(start)
            ):
                yield extents[first:at]
                first = at
        yield extents[first:]

    def _read_one(self, extent: Extent) -> bytes:
        start = extent.place - ENTRY_HEAD
        base, file = self._file_of(start)
        head = file.pread(ENTRY_HEAD, start - base)
        data = file.pread(extent.length, extent.place - base)  # by itself: it needs no copy
        self._check(head, 0, data, extent)
        return data

    def _read_several(self, group: Sequence[Extent]) -> bytes:
        start, last = group[0].place - ENTRY_HEAD, group[-1]
        base, file = self._file_of(start)
        window = file.pread(last.place + last.length - start, start - base)
        parts, view = list[memoryview](), memoryview(window)
        for extent in group:
            at = extent.place - start
            data = view[at : at + extent.length]
            self._check(window, at - ENTRY_HEAD, data, extent)
            parts.append(data)
        return b"".join(parts)

    def _check(self, buffer: bytes, at: int, data: bytes | memoryview, extent: Extent) -> None:
        start = extent.place - ENTRY_HEAD
        head = decode_head(buffer, at, seed=self._seed, position=start)
        if (
            head is None
            or not head.length == len(data) == extent.length
            or crc_of([data]) != head.data_crc
        ):
            base = self._base_of(start)
            raise StoreDamagedError(
                self._path(base), start - base, "the entry is not there, or not what was written"
            )

    def _file_of(self, position: int) -> tuple[int, File]:
        base = self._base_of(position)
        file = self._open.get(base)
        if file is None:
            file = self._open[base] = self._disk.open(self._path(base))
        return base, file

    def _base_of(self, position: int) -> int:
        at = bisect_right(self._bases, position) - 1
        return self._bases[max(0, at)]  # below the first one: that file is gone

    def _path(self, base: int) -> str:
        return os.path.join(self._directory, file_name(base))
