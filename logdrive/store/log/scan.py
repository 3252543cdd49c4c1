"""Scans a log file entry by entry, and searches for proof that damaged bytes were durable."""

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
    """One log file of *size* bytes that begins at *base* of the log.

    *position* is where the next entry must be, *link* what it must link to. After `entries` has
    ended, *position* is the end of what is whole.
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
        """Return the file's head; None if it is damaged.

        Raises ValueError for an unknown version.
        """
        return decode_file_head(self._file.pread(FILE_HEAD, 0), self.base)

    def read_entry_head(self) -> EntryHead | None:
        """Return the head at *position*, whatever it links to; None if there is no whole one."""
        buffer, at = self._bytes(self.position, ENTRY_HEAD)
        return decode_head(buffer, at, seed=self._seed, position=self.position)

    def entries(self) -> Iterator[tuple[EntryHead, bytes | memoryview]]:
        """Yield heads and data from *position* on.

        Ends at the first entry that is not whole, or does not link to the one before.
        """
        while (head := self.read_entry_head()) is not None and head.link == self.link:
            length = ENTRY_HEAD + head.length
            # compared before the data is read: a torn head may name any length
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
        """Return whether only the zeros that fill the last block follow *position*."""
        left = self.end - self.position
        return left < DIRECT_BLOCK and not any(self._file.pread(left, self.position - self.base))

    def proof_beyond(self, position: int) -> int | None:
        """Return where an entry is that was written after *position* was durable; else None."""
        return self._find(position, lambda head: head.committed > position)

    def skip_to_next_entry(self) -> bool:
        """Continue at the next whole head, whatever it links to; return False if there is none."""
        position = self._find(self.position + 1, lambda head: True)
        if position is None:
            return False
        self.position = position
        head = self.read_entry_head()
        self.link = head.link if head is not None else 0
        return True

    def drop_read_ahead(self) -> None:
        """Drop the read-ahead buffer, so that the bytes are read from the file again."""
        self._window = b""

    def _find(self, position: int, is_it: Callable[[EntryHead], bool]) -> int | None:
        """Return the position of the first head, at or after *position*, that *is_it* accepts."""
        at = max(position, self.base + FILE_HEAD)
        while at < self.end:
            window = self._file.pread(_WINDOW, at - self.base)
            at_magic = window.find(ENTRY_MAGIC)
            while at_magic >= 0:
                head = decode_head(window, at_magic, seed=self._seed, position=at + at_magic)
                if head is not None and is_it(head):
                    return head.position
                at_magic = window.find(ENTRY_MAGIC, at_magic + 1)
            if len(window) < _WINDOW:
                return None
            # a head may lie across two windows
            at += len(window) - ENTRY_HEAD + 1
        return None

    def _bytes(self, position: int, size: int) -> tuple[bytes, int]:
        """Return a buffer that holds *size* bytes from *position*, and where they begin in it.

        Fewer bytes only at the file's end.
        """
        at = position - self._window_at
        if at < 0 or at + size > len(self._window):
            self._window = self._file.pread(max(size, _WINDOW), position - self.base)
            self._window_at, at = position, 0
        return self._window, at
