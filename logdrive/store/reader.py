"""Reads durable data back from the log and checks it."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

from logdrive.errors import StorageError, os_error_text
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
                f"the store can't read its log in {self._files.directory}: {os_error_text(error)}"
            ) from error
        finally:
            self._window, self._window_at = b"", -1
        return pieces

    def follow_tail(self, segment: SegmentIndex, offset: int) -> None:
        """Note that a reader is at *offset* of *segment* and will want its next appends."""
        if segment.length - offset < _KEPT_BYTES:
            segment.keep_next_appends(_UNREAD_ENTRIES)

    def on_committed(self, segment: SegmentIndex, place: int, parts: Sequence[Part]) -> None:
        """Keep the data that was committed at *place* if the tail of *segment* is followed."""
        if segment.followed:
            segment.on_append_kept()
            self._keep(place, memoryview(b"".join(parts)))
            return
        self._unused += 1
        if self._kept and self._unused >= _UNREAD_ENTRIES:
            self._kept.clear()
            self._kept_bytes = 0

    def read_entry(self, extent: Extent) -> tuple[int, bytes]:
        """Return when *extent* was appended (ms since 1970), and all of its data.

        Raises `StoreDamagedError`, OSError.
        """
        self._window, self._window_at = b"", -1
        return self.read_time_ms(extent), bytes(
            self._piece(extent.place, extent.length, 0, extent.length)
        )

    def read_time_ms(self, extent: Extent) -> int:
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

    def close_file(self, base: int) -> None:
        """Close the file of *base*, from which nothing is read any more."""
        if (file := self._open.pop(base, None)) is not None:
            file.close()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    def _piece(self, place: int, length: int, skip: int, count: int) -> memoryview:
        """Return *count* bytes, from *skip* on, of the entry's data of *length* at *place*."""
        if (kept := self._kept.get(place)) is not None:
            self._unused = 0
            return kept[skip : skip + count]
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
        """Keep *data*, and drop the oldest kept data that no longer fits."""
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
