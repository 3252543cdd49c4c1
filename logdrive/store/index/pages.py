"""What the index keeps on disk: files of rows of one width, in pages with a checksum each.

A file is written once, under a name that is never used for anything else, and is not changed. It is
there twice, `NAME.a` and `NAME.b`: a page that is damaged in one is read from the other. A page is
the u32 CRC-32 of the store's id, NAME, the page's number (u32) and its rows, little-endian, and
then the rows: as many as the index says, fewer in the last page only. So no page of another file,
place or store passes for it.
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
    """Return the name of the file of where appends lie in the log file of *base*, written when the
    log ended at *as_of*.
    """
    return f"extents-{base:016x}-{as_of:016x}"


def numbers_name(as_of: int) -> str:
    """Return the name of the file of numbers written when the log ended at *as_of*."""
    return f"numbers-{as_of:016x}"


class PagedFile(NamedTuple):
    """A file of *rows* rows, *width* bytes each, *per_page* on each page."""

    name: str
    rows: int
    width: int
    per_page: int

    @property
    def pages(self) -> int:
        """How many pages it has."""
        return -(-self.rows // self.per_page)

    def span(self, page: int) -> tuple[int, int]:
        """Return where *page* stands in the file, and its size."""
        whole = _CRC.size + self.width * self.per_page
        rows = min(self.per_page, self.rows - page * self.per_page)
        return page * whole, _CRC.size + self.width * rows


class PageFiles:
    """The paged files of the store *store_id* in *directory*.

    *suspects* are the paths of copies found to be missing or damaged.
    """

    def __init__(self, disk: Disk, directory: str, store_id: UUID, page: int) -> None:
        self.suspects: dict[str, None] = {}
        self._disk, self._directory, self._store_id = disk, directory, store_id
        self._page = page
        self._held: dict[tuple[str, int], bytes] = {}

    def path(self, name: str, copy: str) -> str:
        """Return where one of the copies of *name* stands."""
        return os.path.join(self._directory, f"{name}.{copy}")

    def per_page(self, width: int) -> int:
        """Return how many rows of *width* a page of a new file has."""
        return max(1, (self._page - _CRC.size) // width)

    def read(self, file: PagedFile, page: int) -> bytes:
        """Return the rows of *page*, from whichever copy has it whole.

        Raises `StoreDamagedError` where neither has, OSError.
        """
        if (held := self._held.get((file.name, page))) is not None:
            return held
        error: OSError | None = None
        for path in sorted(
            (self.path(file.name, copy) for copy in COPIES), key=self.suspects.__contains__
        ):
            try:
                with self._opened(path) as opened:
                    if (rows := self.rows_in(opened, file, page)) is not None:
                        return rows
            except OSError as trouble:
                error = trouble
            self._suspect(path)
        if error is not None and not isinstance(error, FileNotFoundError):
            raise error
        path, offset = self.path(file.name, COPIES[0]), file.span(page)[0]
        raise StoreDamagedError(
            path, offset, "a page of the index is not what was written, and neither is its copy"
        )

    def rows_in(self, opened: File, file: PagedFile, page: int) -> bytes | None:
        """Return the rows of *page* in one copy of *file*, None where it is damaged there."""
        offset, size = file.span(page)
        data = opened.pread(size, offset)
        rows = data[_CRC.size :]
        whole = len(data) == size and _CRC.unpack_from(data)[0] == self._crc(file.name, page, rows)
        return rows if whole else None

    def missing(self, files: Iterable[PagedFile]) -> str:
        """Return the name of a file of which neither copy is there, "" for none.

        Opens none of them. Raises OSError.
        """
        there = {name.partition(".")[0] for name in self._disk.names(self._directory)}
        return next((file.name for file in files if file.name not in there), "")

    def check(self, file: PagedFile, damaged: Callable[[str, int, str], None]) -> None:
        """Read all of both copies, tell *damaged* of paths, offsets and reasons, and keep what was
        read for `read`.

        Raises FileNotFoundError where there is no copy, OSError.
        """
        missing: list[FileNotFoundError] = []
        for copy in COPIES:
            path = self.path(file.name, copy)
            try:
                with self._opened(path) as opened:
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
        for gone in missing:
            damaged(str(gone.filename), 0, "a file of the index is missing")

    def write(self, name: str, width: int, pages: Iterable[bytes]) -> PagedFile:
        """Write a new file of the rows in *pages*, each full but the last; its names are not
        durable yet.

        Raises OSError, and what *pages* raise, leaving none.
        """
        faults.reach("store.pages.before_write")
        opened: list[File] = []
        try:
            for copy in COPIES:
                with contextlib.suppress(FileNotFoundError):
                    # left by an attempt that failed; no index tells of it
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
        """Write those copies of *files* anew that are missing or damaged, from the others.

        What can't be mended now stays as it is.
        """
        there = set(self._disk.names(self._directory))
        for file in files:
            for copy in COPIES:
                path = self.path(file.name, copy)
                if path in self.suspects or os.path.basename(path) not in there:
                    self._mend(file, path)

    def _mend(self, file: PagedFile, path: str) -> None:
        log = structlog.get_logger("logdrive.store")
        try:
            data = b"".join(
                self._framed(file.name, page, self.read(file, page)) for page in range(file.pages)
            )
            write_atomically(self._disk, path, data)
        except (OSError, StoreDamagedError) as error:
            reason = file_error_text(error) if isinstance(error, OSError) else str(error)
            log.warning("a file of the index stays damaged or missing", file=path, reason=reason)
        else:
            self.suspects.pop(path, None)
            log.warning("a damaged file of the index was written anew from its copy", file=path)

    def remove_unknown(self, known: Set[str]) -> None:
        """Remove all paged files but those whose names are *known*, and what an interrupted write
        left of them. Raises OSError.
        """
        for found in sorted(self._disk.names(self._directory)):
            name, _, copy = found.partition(".")
            if _NAME.fullmatch(name) and (name not in known or copy not in COPIES):
                faults.reach("store.free.before_sweep")
                self._disk.remove(os.path.join(self._directory, found))

    def _append(self, name: str, pages: Iterable[bytes], opened: list[File]) -> int:
        parts: list[bytes] = []
        waiting = size = 0
        for number, rows in enumerate(pages):
            parts.append(self._framed(name, number, rows))
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

    def _framed(self, name: str, page: int, rows: bytes) -> bytes:
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
    def _opened(self, path: str) -> Iterator[File]:
        file = self._disk.open(path)
        try:
            yield file
        finally:
            file.close()


class PageCache(Generic[T]):
    """Pages as *decode* makes them of their rows, those used last in memory, up to *most*."""

    def __init__(self, files: PageFiles, most: int, decode: Callable[[bytes], T]) -> None:
        self.files = files
        self._most, self._decode = most, decode
        self._pages: OrderedDict[tuple[str, int], T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pages)

    def page(self, file: PagedFile, number: int) -> T:
        """Return a page. Raises `StoreDamagedError`, `StorageError`."""
        key = file.name, number
        found = self._pages.get(key)
        if found is None:
            try:
                found = self._pages[key] = self._decode(self.files.read(file, number))
            except OSError as error:
                raise StorageError(
                    f"the store can't read its index: {file_error_text(error)}"
                ) from error
            if len(self._pages) > self._most:
                self._pages.popitem(last=False)
        else:
            self._pages.move_to_end(key)
        return found
