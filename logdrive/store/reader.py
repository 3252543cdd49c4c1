"""Reads durable data back from the log, and checks it."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

from logdrive.errors import StorageError
from logdrive.host.disk import Disk, File
from logdrive.model.framing import Part
from logdrive.model.units import MIB
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.index import Extent, SegmentIndex
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles
from logdrive.store.log.format import ENTRY_HEAD, crc_of, decode_head

_KEPT_BYTES = 16 * MIB
_TOLL = 128
"""What an entry that is kept counts beside its bytes."""
_UNREAD_ENTRIES = 1000
"""Of a segment whose follower is not heard of any more, so many entries are still kept; what is
kept goes after as many that are not.
"""


class LogReader:
    """Reads on the event loop: where the bytes are in memory, as they are for those who follow the
    tail, that costs less than a hand-over.

    An entry's CRC is checked when it is read. Of the last ones that were read in part the checked
    bytes are kept, so that the other pieces cost no check of their own, and none comes unchecked
    from a disk that may have changed since. What is committed of a segment whose tail is followed
    is kept as well, since it goes past the page cache.
    """

    def __init__(self, disk: Disk, files: LogFiles, limits: StoreLimits, seed: int) -> None:
        self._disk = disk
        self._files = files
        self._limits = limits
        self._seed = seed
        self._open: OrderedDict[int, File] = OrderedDict()
        self._kept: OrderedDict[int, memoryview] = OrderedDict()
        self._kept_bytes = 0
        self._unused = 0
        self._window = b""
        self._window_at = -1

    def read(
        self,
        segment: SegmentIndex,
        offset: int,
        limit: int,
        *,
        check: bool = True,
        most: int | None = None,
    ) -> list[Part]:
        """Return up to *limit* durable bytes of *most* appends from *offset*, unseen where there is
        no *check*; about 7 µs for each append.

        Raises `StoreDamagedError`, `StorageError`.
        """
        pieces: list[Part] = []
        end = min(segment.length, offset + limit)
        try:
            for extent in islice(segment.extents(offset), most) if offset < end else ():
                skip = offset - extent.offset
                count = min(extent.length - skip, end - offset)
                pieces.append(
                    self._piece(extent.place, extent.length, skip, count)
                    if check
                    else self._raw(extent.place, skip, count)
                )
                offset += count
                if offset == end:
                    break
        except OSError as error:
            raise StorageError(
                f"the store can't read its log in {self._files.directory}: {error}"
            ) from error
        finally:
            self._window, self._window_at = b"", -1
        return pieces

    def follow(self, segment: SegmentIndex, offset: int) -> None:
        """Take note that somebody reads *segment* at *offset*, and will come to its tail while that
        is still kept.
        """
        if segment.length - offset < _KEPT_BYTES:
            segment.followed = _UNREAD_ENTRIES

    def committed(self, segment: SegmentIndex, place: int, parts: Sequence[Part]) -> None:
        """Take in the data of an entry of *segment* that was committed at *place*: who follows will
        want it next.
        """
        if segment.followed:
            segment.followed -= 1
            self._keep(place, memoryview(b"".join(parts)))
            return
        self._unused += 1
        if self._kept and self._unused >= _UNREAD_ENTRIES:
            self._kept.clear()
            self._kept_bytes = 0

    def entry(self, extent: Extent) -> tuple[int, bytes]:
        """Return all of *extent*, and when it was appended (ms since 1970).

        Raises `StoreDamagedError`, OSError.
        """
        self._window, self._window_at = b"", -1
        return self.time_ms(extent), bytes(
            self._piece(extent.place, extent.length, 0, extent.length)
        )

    def time_ms(self, extent: Extent) -> int:
        """Return when *extent* was appended (ms since 1970).

        Raises `StoreDamagedError`, OSError.
        """
        start = extent.place - ENTRY_HEAD
        base = self._files.base_of(start)
        head = decode_head(
            self._file(base).pread(ENTRY_HEAD, start - base), 0, seed=self._seed, position=start
        )
        if head is None:
            raise self._damage(base, start)
        return head.time_ms

    def forget(self, base: int) -> None:
        """Let go of the file of *base*, in which nothing is read any more."""
        if (file := self._open.pop(base, None)) is not None:
            file.close()

    def close(self) -> None:
        """Let go of the files."""
        while self._open:
            self._open.popitem()[1].close()

    def _piece(self, place: int, length: int, skip: int, count: int) -> memoryview:
        """Return *count* bytes after *skip* of the entry's data of *length* at *place*."""
        if (kept := self._kept.get(place)) is not None:
            self._unused = 0
            return kept[skip : skip + count]
        base = self._files.base_of(place)
        start = place - ENTRY_HEAD
        at = start - self._window_at
        if self._window_at < 0 or at < 0 or at + ENTRY_HEAD + length > len(self._window):
            size = max(ENTRY_HEAD + length, self._limits.read_ahead)
            self._window, self._window_at, at = self._file(base).pread(size, start - base), start, 0
        head = decode_head(self._window, at, seed=self._seed, position=start)
        data = memoryview(self._window)[at + ENTRY_HEAD : at + ENTRY_HEAD + length]
        if head is None or head.length != length or crc_of([data]) != head.data_crc:
            raise self._damage(base, start)
        if count < length:
            # not all the window for a little
            self._keep(
                place, data if length >= self._limits.read_ahead else memoryview(bytes(data))
            )
        return data[skip : skip + count]

    def _raw(self, place: int, skip: int, count: int) -> bytes:
        base = self._files.base_of(place)
        return self._file(base).pread(count, place - base + skip)

    def _damage(self, base: int, start: int) -> StoreDamagedError:
        return StoreDamagedError(
            self._files.path(base), start - base, "an entry read back is not what was written"
        )

    def _keep(self, place: int, data: memoryview) -> None:
        """Keep *data*, and of what was kept before as much as there is room for."""
        self._unused = 0
        self._kept[place] = data
        self._kept_bytes += len(data) + _TOLL
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1]) + _TOLL

    def _file(self, base: int) -> File:
        file = self._open.get(base)
        if file is None:
            file = self._open[base] = self._disk.open(self._files.path(base))
            if len(self._open) > self._limits.open_files:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(base)
        return file
