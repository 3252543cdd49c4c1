"""Reads all segments of a store for another's eyes, after the log was verified."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import attrgetter
from typing import Final

from logdrive.errors import StorageError
from logdrive.host.disk import Disk
from logdrive.model.framing import Part
from logdrive.model.units import MIB
from logdrive.store.index.index import Index
from logdrive.store.index.segment import SegmentIndex
from logdrive.store.limits import StoreLimits
from logdrive.store.reader import LogReader

_READ_BYTES: Final = 1 * MIB

InspectSegment = Callable[[str, Iterator[tuple[int, Part]]], None]
"""Called with a segment's full name, and its appends with their offsets, in order.

Appends that can't be read are missing. All must be consumed.
"""


class Inspection:
    """One inspection of all segments in *index*, whose log has the checksums' *seed*."""

    def __init__(
        self, disk: Disk, index: Index, seed: int, progress: Callable[[int, int], None]
    ) -> None:
        """*progress* is called with the bytes of segments read so far, and their total."""
        self._reader = LogReader(disk, index.files, StoreLimits(), seed)
        self._segments = sorted(index.by_number.values(), key=attrgetter("name"))
        self._whole = sum(segment.length - segment.start for segment in self._segments)
        self._done = 0
        self._progress = progress

        self.unread_bytes = 0
        """Bytes of appends that could not be read: damaged, or moved since the verification."""

    def inspect_all(self, inspect: InspectSegment) -> None:
        """Have *inspect* read each segment."""
        try:
            for segment in self._segments:
                # a damaged index was reported when it was read
                with suppress(StorageError):
                    inspect(segment.name, self._read_appends(segment))
        finally:
            self._reader.close()

    def _read_appends(self, segment: SegmentIndex) -> Iterator[tuple[int, Part]]:
        offset = segment.start
        while offset < segment.length:
            parts, end = self._read_some(segment, offset)
            self._done += end - offset
            for part in parts:
                yield offset, part
                offset += len(part)
            offset = end
            self._progress(self._done, self._whole)

    def _read_some(self, segment: SegmentIndex, offset: int) -> tuple[list[Part], int]:
        """Return the next appends from *offset* on, and where they end; none if one is damaged."""
        try:
            parts = self._reader.read(segment, offset, _READ_BYTES)
            return parts, offset + sum(map(len, parts))
        except StorageError:  # one of several: read the first of them alone
            extent = segment.extent_at(offset)
            end = extent.offset + extent.length
        try:
            return self._reader.read(segment, offset, end - offset), end
        except StorageError:
            self.unread_bytes += end - offset
            return [], end
