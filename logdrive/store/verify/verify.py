"""`logdrive store verify`: reads every byte of a store, and says of each whether it is what was
written. It changes nothing.

Every file's head, every entry's checksums and link, every segment's every append, and the indexes
against a replay of the log. A store may be in use meanwhile: what it appends, frees or writes at
the end of its log after the look began is not judged.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from logdrive.errors import StorageError, file_error_text
from logdrive.host.disk import Disk, File
from logdrive.store.index.index import Index, SegmentIndex
from logdrive.store.log.files import LogFiles, bases_in
from logdrive.store.log.format import APPEND, COPY, ENTRY_HEAD, FILE_HEAD, EntryHead, seed_of
from logdrive.store.log.scan import FileScan
from logdrive.store.opening import is_held
from logdrive.store.verify.replay import Replay

_STEP_BYTES = 1 << 20
"""Between two words of progress."""
_LOOKED_BACK = 1000
"""Damages among which one of the same place is looked for."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One place where a file is not what was written."""

    file: str
    offset: int
    reason: str


@dataclass(slots=True)
class Verification:
    """What was looked at and found.

    *torn_bytes* is what an interrupted write left at the log's end, which the next start cuts off.
    """

    directory: str
    held: bool = False
    files: int = 0
    entries: int = 0
    bytes: int = 0
    segments: int = 0
    torn_bytes: int = 0
    damages: list[Damage] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damages


@dataclass(slots=True)
class _Appends:
    """Where data lies in one file, in order.

    12 bytes an entry: all that a look keeps of one, beside what the index has.
    """

    places: "array[int]" = field(default_factory=lambda: array("q"))
    lengths: "array[int]" = field(default_factory=lambda: array("I"))

    def has(self, place: int, length: int) -> bool:
        """Tell whether an entry's data of *length* lies at *place*."""
        at = bisect_left(self.places, place)
        return at < len(self.places) and self.places[at] == place and self.lengths[at] == length


def verify(
    disk: Disk, directory: str, progress: Callable[[int, int], None] = lambda done, whole: None
) -> Verification:
    """Look at the whole store in *directory*; *progress* is told how many bytes of the log were
    read, and of how many.

    Raises `StorageError` where there is no store, or the directory can't be read.
    """
    try:
        return _Look(disk, directory, progress).look()
    except OSError as error:
        raise StorageError(
            f"the store in {directory} can't be read: {file_error_text(error)}"
        ) from error


class _Look:
    """One verification. *files* are those there at its beginning, as long as they were then."""

    def __init__(self, disk: Disk, directory: str, progress: Callable[[int, int], None]) -> None:
        self._disk = disk
        self._found = Verification(directory, held=is_held(disk, directory))
        self._progress = progress
        self._replaying = Replay(disk, directory, self._damaged)
        self._files = LogFiles(directory, bases_in(disk.names(directory)))
        if not self._files.bases:
            raise StorageError(f"there is no store in {directory}")
        self._ends = {base: base + self._size(base) for base in self._files.bases}
        self._whole = sum(end - base for base, end in self._ends.items())
        self._appends: dict[int, _Appends] = {}
        self._gone: set[int] = set()
        self._told = 0
        self._store_id = self._id()
        self._seed = seed_of(self._store_id)

    def look(self) -> Verification:
        """Look at everything."""
        self._replaying.begin_replay(self._disk, self._files.bases, self._store_id)
        # where the file before ends, -1 if that can't be told, and the CRC of its last entry
        before = (-1, 0)
        for base in self._files.bases:
            before = self._look_at_file(base, before)
        self._replaying.finish_replay()
        self._look_at_segments()
        self._progress(self._whole, self._whole)
        return self._found

    def _look_at_file(self, base: int, before: tuple[int, int]) -> tuple[int, int]:
        path = self._files.path(base)
        if before[0] >= 0 and not self._replaying.may_follow(base, before[0]):
            self._damaged(
                path,
                0,
                f"the log before it ends at {before[0]}: a file is missing, cut or too long",
            )
        try:
            file = self._disk.open(path)
        except FileNotFoundError:  # freed since the look began
            self._gone.add(base)
            self._pass_over_file(base)
            return -1, 0
        try:
            return self._scan(file, base, before)
        except OSError as error:
            self._damaged(path, 0, f"it can't be read: {file_error_text(error)}")
            self._pass_over_file(base)
            return -1, 0
        finally:
            file.close()

    def _pass_over_file(self, base: int) -> None:
        """Go on without the entries of a file, of which the last one matters: an index may end
        between two of them.
        """
        _, end = self._files.span_of(base)
        self._replaying.skip_missing(min(end, max(self._ends.values())) - 1)

    def _scan(self, file: File, base: int, before: tuple[int, int]) -> tuple[int, int]:
        self._found.files += 1
        self._found.bytes += self._ends[base] - base
        end = self._ends[base]
        self._look_at_head(file, base)
        if (expected := self._replaying.ends.get(base, end)) != end:
            self._damaged(
                self._files.path(base),
                min(expected, end) - base,
                f"the file had {expected - base} bytes",
            )
        scan = FileScan(file, base=base, size=end - base, seed=self._seed)
        scan.position = base + FILE_HEAD
        if before[0] == base:
            scan.link = before[1]
        elif (first := scan.read_entry_head()) is not None:
            scan.link = first.link  # the entry before it was freed
        self._appends[base] = _Appends()
        while scan.position < end:
            self._entries(scan)
            if scan.position < end and not self._pass_over(file, scan):
                return -1, 0
        return end, scan.link

    def _entries(self, scan: FileScan) -> None:
        appends = self._appends[scan.base]
        for head, data in scan.entries():
            self._found.entries += 1
            if head.kind in (APPEND, COPY):
                appends.places.append(head.position + ENTRY_HEAD)
                appends.lengths.append(head.length)
            self._replaying.replay_entry(head, data)
            self._tell(head)

    def _pass_over(self, file: File, scan: FileScan) -> bool:
        """Judge the entry that is not whole, and go on behind it; False where nothing is behind
        it.
        """
        position, last = scan.position, scan.base == self._files.bases[-1]
        if last and scan.proof_beyond(position) is None and position >= self._replaying.covered:
            if not self._found.held and not scan.ends_in_padding():
                self._found.torn_bytes = scan.end - position
            return False
        if last and self._found.held and self._goes_beyond(file, scan):
            return False
        if last and self._found.held and self._written_since(file, scan):
            return True
        self._damaged(
            self._files.path(scan.base),
            position - scan.base,
            "an entry is not whole, or does not follow the one before it",
        )
        self._replaying.skip_missing(position)
        return scan.skip_to_next_entry()

    def _goes_beyond(self, file: File, scan: FileScan) -> bool:
        """Tell whether the entry ends behind what there was when the look began: it was being
        written then.
        """
        again = FileScan(file, base=scan.base, size=scan.end - scan.base, seed=self._seed)
        again.position = scan.position
        head = again.read_entry_head()
        return (
            head is not None
            and head.link == scan.link
            and scan.position + ENTRY_HEAD + head.length > scan.end
        )

    def _written_since(self, file: File, scan: FileScan) -> bool:
        """Tell whether the entry is whole after all: it was being written, or another one was cut
        back, when it was read.
        """
        again = FileScan(file, base=scan.base, size=scan.end - scan.base, seed=self._seed)
        again.position, again.link = scan.position, scan.link
        if next(again.entries(), None) is None:
            return False
        scan.drop_read_ahead()
        return True

    def _id(self) -> UUID:
        """Return the store's id, from the first file whose head is whole."""
        for base in self._files.bases:
            with suppress(FileNotFoundError):
                file = self._disk.open(self._files.path(base))
                try:
                    if (
                        head := FileScan(file, base=base, size=0, seed=0).read_file_head()
                    ) is not None:
                        return head.store_id
                except ValueError as error:
                    raise StorageError(f"{self._files.path(base)}: {error}") from error
                finally:
                    file.close()
        return UUID(int=0)

    def _look_at_head(self, file: File, base: int) -> None:
        path, head = (
            self._files.path(base),
            FileScan(file, base=base, size=0, seed=0).read_file_head(),
        )
        if head is not None:
            if head.store_id != self._store_id:
                self._damaged(path, 0, f"it is of store {head.store_id}, not of {self._store_id}")
        elif (
            base != self._files.bases[-1]
            or self._ends[base] > base + FILE_HEAD
            or base < self._replaying.covered
        ):
            self._damaged(path, 0, "its head is not whole")
        elif not self._found.held:
            self._found.torn_bytes = self._ends[base] - base

    def _look_at_segments(self) -> None:
        """Every append of every segment must be where the index, brought up to date, says."""
        index = self._replaying.index
        if index is None:
            return
        self._found.segments = len(index.by_number)
        missing: set[int] = set()
        for segment in index.by_number.values():
            with suppress(StorageError):  # told when the index was read
                self._look_at_segment(index, segment, missing)

    def _look_at_segment(self, index: Index, segment: SegmentIndex, missing: set[int]) -> None:
        for offset, place, length in segment.extents(segment.start):
            base = index.files.base_of(place)
            appends = self._appends.get(base)
            if base in self._gone or (appends is not None and appends.has(place, length)):
                continue
            if appends is not None:
                what = f"bytes {offset} to {offset + length} of {segment.name} can't be read"
                self._damaged(index.files.path(base), place - ENTRY_HEAD - base, what)
            elif base not in missing:
                missing.add(base)
                self._damaged(
                    index.files.path(base),
                    0,
                    f"the file is missing, and bytes of {segment.name} with it",
                )

    def _damaged(self, path: str, offset: int, reason: str) -> None:
        """Note a damage; two of one place are one."""
        for at, there in enumerate(
            self._found.damages[-_LOOKED_BACK:], max(0, len(self._found.damages) - _LOOKED_BACK)
        ):
            if (there.file, there.offset) == (path, offset):
                self._found.damages[at] = Damage(path, offset, f"{there.reason}; {reason}")
                return
        self._found.damages.append(Damage(path, offset, reason))

    def _tell(self, head: EntryHead) -> None:
        done = self._found.bytes - self._ends[self._files.base_of(head.position)] + head.position
        if done - self._told >= _STEP_BYTES:
            self._told = done
            self._progress(done, self._whole)

    def _size(self, base: int) -> int:
        try:
            return self._disk.stat(self._files.path(base)).size
        except FileNotFoundError:
            return 0
