"""Paged files: what the index keeps on disk, as rows of one width in pages with a checksum each.

A file is written once, under a name that is never used again, and is not changed. It exists twice,
`NAME.a` and `NAME.b`: a page that is damaged in one is read from the other. A page is a u32 CRC-32
and then its rows, as many as the index says, fewer only in the last page. The CRC covers the
store's id, NAME, the page's number (u32) and the rows, so no page of another file, place or store
is accepted. Integers are little-endian.
"""

import contextlib
import os
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

import structlog

from logdrive.errors import StorageError, file_error_text
from logdrive.host import faults
from logdrive.host.disk import Disk, File, write_atomically
from logdrive.model.units import MIB
from logdrive.store.errors import StoreDamagedError
from logdrive.store.log.format import crc_of

COPIES: Final = ("a", "b")
_NAME: Final = re.compile(r"extents-[0-9a-f]{16}-[0-9a-f]{16}|numbers-[0-9a-f]{16}")
_CRC: Final = struct.Struct("<I")
_BUFFER: Final = MIB

T = TypeVar("T")


def extents_name(base: int, as_of: int) -> str:
    """Return the name of the extents file for the log file of *base*.

    The log ended at *as_of* when it was written.
    """
    return f"extents-{base:016x}-{as_of:016x}"


def numbers_name(as_of: int) -> str:
    """Return the name of the numbers file that was written when the log ended at *as_of*."""
    return f"numbers-{as_of:016x}"


class PagedFile(NamedTuple):
    """A file of *rows* rows, *width* bytes each, *per_page* on each page."""

    name: str
    rows: int
    width: int
    per_page: int

    @property
    def pages(self) -> int:
        """The number of pages."""
        return -(-self.rows // self.per_page)

    def span(self, page: int) -> tuple[int, int]:
        """Return the offset of *page* in the file, and its size."""
        whole = _CRC.size + self.width * self.per_page
        rows = min(self.per_page, self.rows - page * self.per_page)
        return page * whole, _CRC.size + self.width * rows


class PageFiles:
    """The paged files of the store *store_id* in *directory*.

    *suspects* are the paths of copies that were found missing or damaged.
    """

    def __init__(self, disk: Disk, directory: str, store_id: UUID, page: int) -> None:
        self.suspects: dict[str, None] = {}
        self._disk = disk
        self._directory = directory
        self._store_id = store_id
        # bytes of a page
        self._page = page
        # rows that `check` has read, by name and page
        self._held: dict[tuple[str, int], bytes] = {}

    def path(self, name: str, copy: str) -> str:
        """Return the path of one copy of *name*."""
        return os.path.join(self._directory, f"{name}.{copy}")

    def per_page(self, width: int) -> int:
        """Return the number of rows of *width* bytes in a page of a new file."""
        return max(1, (self._page - _CRC.size) // width)

    def read(self, file: PagedFile, page: int) -> bytes:
        """Return the rows of *page*, from either copy.

        Raises `StoreDamagedError` if both are damaged, OSError.
        """
        if (held := self._held.get((file.name, page))) is not None:
            return held
        error: OSError | None = None
        # a copy that was damaged before is tried last
        for path in sorted(
            (self.path(file.name, copy) for copy in COPIES), key=self.suspects.__contains__
        ):
            try:
                with self._open_copy(path) as opened:
                    if (rows := self.rows_in(opened, file, page)) is not None:
                        return rows
            except OSError as trouble:
                error = trouble
            self._suspect(path)
        # the disk fails: the copies themselves may be good
        if error is not None and not isinstance(error, FileNotFoundError):
            raise error
        path, offset = self.path(file.name, COPIES[0]), file.span(page)[0]
        raise StoreDamagedError(
            path, offset, "a page of the index is not what was written, and neither is its copy"
        )

    def rows_in(self, opened: File, file: PagedFile, page: int) -> bytes | None:
        """Return the rows of *page* in one copy of *file*; None if it is damaged."""
        offset, size = file.span(page)
        data = opened.pread(size, offset)
        rows = data[_CRC.size :]
        whole = len(data) == size and _CRC.unpack_from(data)[0] == self._crc(file.name, page, rows)
        return rows if whole else None

    def missing(self, files: Iterable[PagedFile]) -> str:
        """Return the name of a file of which both copies are missing, "" if there is none.

        Opens no file. Raises OSError.
        """
        names = {name.partition(".")[0] for name in self._disk.names(self._directory)}
        return next((file.name for file in files if file.name not in names), "")

    def check(self, file: PagedFile, damaged: Callable[[str, int, str], None]) -> None:
        """Read all pages of both copies, and keep them in memory for `read`.

        Calls *damaged* with a path, an offset and a reason. Raises FileNotFoundError if both copies
        are missing, OSError.
        """
        missing: list[FileNotFoundError] = []
        for copy in COPIES:
            path = self.path(file.name, copy)
            try:
                with self._open_copy(path) as opened:
                    for page in range(file.pages):
                        rows = self.rows_in(opened, file, page)
                        if rows is None:
                            damaged(
                                path,
                                file.span(page)[0],
                                "a page of the index is not what was written",
                            )
                        else:
                            self._held[file.name, page] = rows
                    if opened.stat().size != sum(file.span(file.pages - 1)):
                        damaged(path, sum(file.span(file.pages - 1)), "the file does not end here")
            except FileNotFoundError as error:
                missing.append(error)
        if len(missing) == len(COPIES):
            raise missing[0]
        for not_found in missing:
            damaged(str(not_found.filename), 0, "a file of the index is missing")

    def write(self, name: str, width: int, pages: Iterable[bytes]) -> PagedFile:
        """Write a new file with the rows in *pages*, each full but the last.

        The name is not durable yet. Raises OSError, and what *pages* raises; the copies are removed
        then.
        """
        faults.reach("store.pages.before_write")
        opened: list[File] = []
        try:
            for copy in COPIES:
                with contextlib.suppress(FileNotFoundError):
                    # left by a failed attempt; no index refers to it
                    self._disk.remove(self.path(name, copy))
                opened.append(self._disk.open(self.path(name, copy), write=True, create=True))
            size = self._append(name, pages, opened)
            faults.reach("store.pages.before_sync")
            for file in opened:
                file.datasync()
                if file is opened[0]:
                    faults.reach("store.pages.between_syncs")
        except (OSError, StorageError):
            for copy in COPIES:
                with contextlib.suppress(OSError):
                    self._disk.remove(self.path(name, copy))
            raise
        finally:
            for file in opened:
                file.close()
        return PagedFile(name, size // width, width, self.per_page(width))

    def restore_copies(self, files: Iterable[PagedFile]) -> None:
        """Write missing or damaged copies of *files* again, from the other copy.

        Copies that can't be written now stay as they are.
        """
        names = set(self._disk.names(self._directory))
        for file in files:
            for copy in COPIES:
                path = self.path(file.name, copy)
                if path in self.suspects or os.path.basename(path) not in names:
                    self._mend(file, path)

    def _mend(self, file: PagedFile, path: str) -> None:
        log = structlog.get_logger("logdrive.store")
        try:
            data = b"".join(
                self._encode_page(file.name, page, self.read(file, page))
                for page in range(file.pages)
            )
            write_atomically(self._disk, path, data)
        except (OSError, StoreDamagedError) as error:
            reason = file_error_text(error) if isinstance(error, OSError) else str(error)
            log.warning("a damaged file of the index can't be restored", file=path, reason=reason)
        else:
            self.suspects.pop(path, None)
            log.warning("a damaged file of the index was restored from its copy", file=path)

    def remove_unknown(self, known: Set[str]) -> None:
        """Remove all paged files whose names are not *known*, and what interrupted writes left.

        Raises OSError.
        """
        for entry in sorted(self._disk.names(self._directory)):
            name, _, copy = entry.partition(".")
            if _NAME.fullmatch(name) and (name not in known or copy not in COPIES):
                faults.reach("store.free.before_sweep")
                self._disk.remove(os.path.join(self._directory, entry))

    def _append(self, name: str, pages: Iterable[bytes], opened: list[File]) -> int:
        parts: list[bytes] = []
        waiting = size = 0
        for number, rows in enumerate(pages):
            parts.append(self._encode_page(name, number, rows))
            size += len(rows)
            waiting += len(rows)
            if waiting >= _BUFFER:
                self._flush(parts, opened)
                waiting = 0
        self._flush(parts, opened)
        return size

    def _flush(self, parts: list[bytes], opened: list[File]) -> None:
        data = b"".join(parts)
        parts.clear()
        for file in opened:
            file.append([data])

    def _encode_page(self, name: str, page: int, rows: bytes) -> bytes:
        return _CRC.pack(self._crc(name, page, rows)) + rows

    def _crc(self, name: str, page: int, rows: bytes) -> int:
        return crc_of([self._store_id.bytes, name.encode(), _CRC.pack(page), rows])

    def _suspect(self, path: str) -> None:
        if path not in self.suspects:
            self.suspects[path] = None
            structlog.get_logger("logdrive.store").warning(
                "a file of the index is missing or damaged; its copy is read", file=path
            )

    @contextlib.contextmanager
    def _open_copy(self, path: str) -> Iterator[File]:
        file = self._disk.open(path)
        try:
            yield file
        finally:
            file.close()


class PageCache(Generic[T]):
    """Decoded pages: the ones used last are kept in memory, at most *most*."""

    def __init__(self, files: PageFiles, most: int, decode: Callable[[bytes], T]) -> None:
        self.files = files
        self._most = most
        self._decode = decode
        # decoded pages by file name and number, the one used last at the end
        self._pages: OrderedDict[tuple[str, int], T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pages)

    def page(self, file: PagedFile, number: int) -> T:
        """Return a page. Raises `StoreDamagedError`, `StorageError`."""
        key = file.name, number
        page = self._pages.get(key)
        if page is None:
            try:
                page = self._pages[key] = self._decode(self.files.read(file, number))
            except OSError as error:
                raise StorageError(
                    f"the store can't read its index: {file_error_text(error)}"
                ) from error
            if len(self._pages) > self._most:
                self._pages.popitem(last=False)
        else:
            self._pages.move_to_end(key)
        return page
