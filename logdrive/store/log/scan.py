"""Reads a log file from a place on, entry by entry, as far as it is whole; and looks for proof that
more of it once was.
"""

from collections.abc import Callable, Iterator

from logdrive.host.direct_file import DIRECT_BLOCK
from logdrive.host.disk import File
from logdrive.model.units import MIB
from logdrive.store.log.format import (
    ENTRY_HEAD,
    ENTRY_MAGIC,
    FILE_HEAD,
    EntryHead,
    FileHead,
    crc_of,
    decode_file_head,
    decode_head,
)

_WINDOW = 4 * MIB


class FileScan:
    """One log file of *size* bytes whose first byte is at *base* of the log.

    *position* and *link* are where the next entry must stand and what it must link to; after
    `entries` has ended, *position* is the end of what is whole.
    """

    def __init__(self, file: File, *, base: int, size: int, seed: int) -> None:
        self.base = base
        self.end = base + size
        self.position = base
        self.link = 0
        self._file = file
        self._seed = seed
        self._window = b""
        self._window_at = 0

    def read_file_head(self) -> FileHead | None:
        """Return the file's head, None where it is damaged.

        Raises ValueError for a version not known.
        """
        return decode_file_head(self._file.pread(FILE_HEAD, 0), self.base)

    def read_entry_head(self) -> EntryHead | None:
        """Return the head at *position*, whatever it links to; None where none is whole."""
        buffer, at = self._bytes(self.position, ENTRY_HEAD)
        return decode_head(buffer, at, seed=self._seed, position=self.position)

    def entries(self) -> Iterator[tuple[EntryHead, bytes | memoryview]]:
        """Yield heads and data from *position* on, up to the first entry that is not whole or does
        not follow.
        """
        while (head := self.read_entry_head()) is not None and head.link == self.link:
            length = ENTRY_HEAD + head.length
            if head.length > self.end - self.position - ENTRY_HEAD:
                return
            buffer, at = self._bytes(self.position, length)
            data = memoryview(buffer)[at + ENTRY_HEAD : at + length]
            if len(data) < head.length or crc_of([data]) != head.data_crc:
                return
            self.position += length
            self.link = head.crc
            yield head, data

    def ends_in_padding(self) -> bool:
        """Tell whether nothing but the zeros that fill a block up lies at *position*."""
        left = self.end - self.position
        return left < DIRECT_BLOCK and not any(self._file.pread(left, self.position - self.base))

    def proof_beyond(self, position: int) -> int | None:
        """Return where an entry stands that was written after *position* was durable; None where
        there is none.
        """
        return self._find(position, lambda head: head.committed > position)

    def skip_to_next_entry(self) -> bool:
        """Go on at the next head that is whole, whatever it links to; False where there is none."""
        found = self._find(self.position + 1, lambda head: True)
        if found is None:
            return False
        self.position = found
        head = self.read_entry_head()
        self.link = head.link if head is not None else 0
        return True

    def drop_read_ahead(self) -> None:
        """Read anew what was read ahead."""
        self._window = b""

    def _find(self, position: int, is_it: Callable[[EntryHead], bool]) -> int | None:
        """Return where the first head at or after *position* stands that *is_it*."""
        at = max(position, self.base + FILE_HEAD)
        while at < self.end:
            window = self._file.pread(_WINDOW, at - self.base)
            found = window.find(ENTRY_MAGIC)
            while found >= 0:
                head = decode_head(window, found, seed=self._seed, position=at + found)
                if head is not None and is_it(head):
                    return head.position
                found = window.find(ENTRY_MAGIC, found + 1)
            if len(window) < _WINDOW:
                return None
            at += len(window) - ENTRY_HEAD + 1
        return None

    def _bytes(self, position: int, size: int) -> tuple[bytes, int]:
        """Return a buffer that holds *size* bytes from *position*, fewer only at the file's end,
        and where they begin in it.
        """
        at = position - self._window_at
        if at < 0 or at + size > len(self._window):
            self._window = self._file.pread(max(size, _WINDOW), position - self.base)
            self._window_at, at = position, 0
        return self._window, at
