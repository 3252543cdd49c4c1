"""Reads durable data back from the log and checks it."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from logdrive.errors import StorageError, os_error_text
from logdrive.host.disk import Disk, File
from logdrive.model.framing import Part
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.index import Extent, SegmentIndex
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles
from logdrive.store.log.format import ENTRY_HEAD, crc_of, decode_head

_TOLL = 128
"""Bytes that a kept entry counts besides its data."""
_UNREAD_ENTRIES = 1000
"""Appends that are kept for a reader of the tail who does not come back.

Everything kept is dropped after as many appends to segments that nobody follows.
"""


class LogReader:
    """Reads the log on the event loop: for data in memory, a thread would cost more.

    Readers of the tail find their data in memory. An entry's CRC is checked when it is read. The
    checked bytes of the last entries that were read in part are kept: the other parts need no check
    of their own, and none comes unchecked from a disk that may have changed meanwhile. Appends to a
    segment whose tail is followed are kept as well, since they bypass the page cache.
    """

    def __init__(self, disk: Disk, files: LogFiles, limits: StoreLimits, seed: int) -> None:
        self._disk = disk
        self._files = files
        self._limits = limits
        self._seed = seed
        # open log files by base, the one used last at the end
        self._open: OrderedDict[int, File] = OrderedDict()
        # checked data of entries by place in the log, the oldest first
        self._kept: OrderedDict[int, memoryview] = OrderedDict()
        # when they were appended (ms since 1970), by place likewise
        self._kept_times: dict[int, int] = {}
        self._kept_bytes = 0
        # appends since kept data was used last
        self._unused = 0
        # bytes read ahead during one `read`, and their position in the log, -1 for none
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
        """Return up to *limit* durable bytes of at most *most* appends, from *offset*.

        Without *check* the CRCs are not checked. Costs about 7 µs per append. Raises
        `StoreDamagedError`, `StorageError`.
        """
        with self._one_read():
            if not check:
                return [
                    self._raw(extent.place, skip, count)
                    for extent, skip, count in _slices(segment, offset, limit, most)
                ]
            return [
                self._piece(extent.place, extent.length, skip, count)[1]
                for extent, skip, count in _slices(segment, offset, limit, most)
            ]

    def read_appends(
        self, segment: SegmentIndex, offset: int, limit: int
    ) -> list[tuple[int, Part]]:
        """Return up to *limit* durable bytes from *offset*, and when each part was appended."""
        with self._one_read():
            return [
                self._piece(extent.place, extent.length, skip, count)
                for extent, skip, count in _slices(segment, offset, limit, None)
            ]

    def follow_tail(self, segment: SegmentIndex, offset: int) -> None:
        """Note that a reader is at *offset* of *segment* and will want its next appends."""
        if segment.length - offset < self._limits.kept:
            segment.keep_next_appends(_UNREAD_ENTRIES)

    def on_committed(
        self, segment: SegmentIndex, place: int, time_ms: int, parts: Sequence[Part]
    ) -> None:
        """Keep the data that was committed at *place* if the tail of *segment* is followed.

        There are no *parts* if it was not, when they were submitted.
        """
        if segment.followed and parts:
            segment.on_append_kept()
            self._keep(place, time_ms, memoryview(b"".join(parts)))
            return
        self._unused += 1
        if self._kept and self._unused >= _UNREAD_ENTRIES:
            self._kept.clear()
            self._kept_times.clear()
            self._kept_bytes = 0

    def read_entry(self, extent: Extent) -> tuple[int, bytes]:
        """Return when *extent* was appended (ms since 1970), and all of its data.

        Raises `StoreDamagedError`, OSError.
        """
        self._window, self._window_at = b"", -1
        time_ms, data = self._piece(extent.place, extent.length, 0, extent.length)
        return time_ms, bytes(data)

    def read_time_ms(self, extent: Extent) -> int:
        """Return when *extent* was appended (ms since 1970).

        Raises `StoreDamagedError`, `StorageError`.
        """
        start = extent.place - ENTRY_HEAD
        base = self._files.base_of(start)
        with self._one_read():
            data = self._file(base).pread(ENTRY_HEAD, start - base)
        head = decode_head(data, 0, seed=self._seed, position=start)
        if head is None:
            raise self._damage(base, start)
        return head.time_ms

    def close_file(self, base: int) -> None:
        """Close the file of *base*, from which nothing is read any more."""
        if (file := self._open.pop(base, None)) is not None:
            file.close()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    @contextmanager
    def _one_read(self) -> Iterator[None]:
        """Convert the disk's errors, and drop what was read ahead at the end."""
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"the store can't read its log in {self._files.directory}: {os_error_text(error)}"
            ) from error
        finally:
            self._window, self._window_at = b"", -1

    def _piece(self, place: int, length: int, skip: int, count: int) -> tuple[int, memoryview]:
        """Return *count* bytes, from *skip* on, of the entry's data of *length* at *place*.

        And when they were appended (ms since 1970).
        """
        if (kept := self._kept.get(place)) is not None:
            self._unused = 0
            return self._kept_times[place], kept[skip : skip + count]
        base = self._files.base_of(place)
        start = place - ENTRY_HEAD
        at = start - self._window_at
        # not in what was read ahead for the entry before
        if self._window_at < 0 or at < 0 or at + ENTRY_HEAD + length > len(self._window):
            size = max(ENTRY_HEAD + length, self._limits.read_ahead)
            self._window, self._window_at, at = self._file(base).pread(size, start - base), start, 0
        head = decode_head(self._window, at, seed=self._seed, position=start)
        data = memoryview(self._window)[at + ENTRY_HEAD : at + ENTRY_HEAD + length]
        if head is None or head.length != length or crc_of([data]) != head.data_crc:
            raise self._damage(base, start)
        if count < length:  # the other parts will be read, too: don't check the entry again
            # a view would keep the whole window in memory for a small entry
            self._keep(
                place,
                head.time_ms,
                data if length >= self._limits.read_ahead else memoryview(bytes(data)),
            )
        return head.time_ms, data[skip : skip + count]

    def _raw(self, place: int, skip: int, count: int) -> bytes:
        base = self._files.base_of(place)
        return self._file(base).pread(count, place - base + skip)

    def _damage(self, base: int, start: int) -> StoreDamagedError:
        return StoreDamagedError(
            self._files.path(base), start - base, "an entry read back is not what was written"
        )

    def _keep(self, place: int, time_ms: int, data: memoryview) -> None:
        """Keep *data*, and drop the oldest kept data that no longer fits."""
        self._unused = 0
        self._kept[place] = data
        self._kept_times[place] = time_ms
        self._kept_bytes += len(data) + _TOLL
        while self._kept_bytes > self._limits.kept and len(self._kept) > 1:
            oldest, dropped = self._kept.popitem(last=False)
            del self._kept_times[oldest]
            self._kept_bytes -= len(dropped) + _TOLL

    def _file(self, base: int) -> File:
        file = self._open.get(base)
        if file is None:
            file = self._open[base] = self._disk.open(self._files.path(base))
            if len(self._open) > self._limits.open_files:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(base)
        return file


def _slices(
    segment: SegmentIndex, offset: int, limit: int, most: int | None
) -> Iterator[tuple[Extent, int, int]]:
    """Yield the extents that have the bytes [offset, offset + limit), at most *most* of them.

    With each, how many of its bytes to skip, and how many to take.
    """
    end = min(segment.length, offset + limit)
    for extent in islice(segment.extents(offset), most) if offset < end else ():
        skip = offset - extent.offset
        count = min(extent.length - skip, end - offset)
        yield extent, skip, count
        offset += count
        if offset == end:
            return
