"""`logdrive store verify`: reads every byte of a store and checks it; changes nothing.

It checks every file's head, every entry's checksums and link, every append of every segment, and
the indexes against a replay of the log. The store may be in use: what it appends, reclaims, or
writes at its log's end after the verification began is not judged.
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
from logdrive.store.verify.inspection import Inspection, InspectSegment
from logdrive.store.verify.replay import Replay

_STEP_BYTES = 1 << 20
"""Bytes between two calls of *progress*."""
_LOOKED_BACK = 1000
"""Damages that are searched for one of the same place."""

OnProgress = Callable[[int, int], None]
"""Called with the bytes read so far, and their total."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place where a file is not what was written."""

    file: str
    offset: int
    reason: str


@dataclass(slots=True)
class Verification:
    """What was checked and found.

    *torn_bytes* is what an interrupted write left at the log's end; the next start cuts it off.
    *unread_bytes* are those of segments that could not be inspected: they are damaged, or were
    moved meanwhile.
    """

    directory: str
    held: bool = False
    files: int = 0
    entries: int = 0
    bytes: int = 0
    segments: int = 0
    torn_bytes: int = 0
    unread_bytes: int = 0
    damages: list[Damage] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        """True if nothing is damaged."""
        return not self.damages


@dataclass(slots=True)
class _Appends:
    """Where data is in one log file, in order.

    12 bytes per entry are all that is kept of it, besides the index.
    """

    places: "array[int]" = field(default_factory=lambda: array("q"))
    lengths: "array[int]" = field(default_factory=lambda: array("I"))

    def has(self, place: int, length: int) -> bool:
        """Return whether *length* bytes of an entry's data are at *place*."""
        at = bisect_left(self.places, place)
        return at < len(self.places) and self.places[at] == place and self.lengths[at] == length


def verify(
    disk: Disk,
    directory: str,
    progress: OnProgress = lambda done, whole: None,
    *,
    inspect: InspectSegment | None = None,
    inspected: OnProgress = lambda done, whole: None,
) -> Verification:
    """Verify the store in *directory*; then have *inspect* look into each of its segments.

    *progress* is called with the bytes of the log read so far, and their total; *inspected* with
    those of the segments. Raises `StorageError` if there is no store, or the directory can't be
    read.
    """
    try:
        verifier = _Verifier(disk, directory, progress)
        result = verifier.look()
        if inspect is not None:
            verifier.inspect_segments(inspect, inspected)
        return result
    except OSError as error:
        raise StorageError(
            f"the store in {directory} can't be read: {file_error_text(error)}"
        ) from error


class _Verifier:
    """One verification, of the files that exist when it begins, with their lengths at that time."""

    def __init__(self, disk: Disk, directory: str, progress: OnProgress) -> None:
        self._disk = disk
        self._result = Verification(directory, held=is_held(disk, directory))
        self._progress = progress
        self._replay = Replay(disk, directory, self._damaged)
        self._files = LogFiles(directory, bases_in(disk.names(directory)))
        if not self._files.bases:
            raise StorageError(f"there is no store in {directory}")
        self._ends = {base: base + self._size(base) for base in self._files.bases}
        self._whole = sum(end - base for base, end in self._ends.items())
        # where appends' data is, by file
        self._appends: dict[int, _Appends] = {}
        # files that were reclaimed meanwhile
        self._gone: set[int] = set()
        # bytes at the last call of *progress*
        self._reported = 0
        self._store_id = self._id()
        self._seed = seed_of(self._store_id)

    def look(self) -> Verification:
        """Verify everything."""
        self._replay.begin_replay(self._disk, self._files.bases, self._store_id)
        # where the previous file ends (-1 if unknown), and the CRC of its last entry
        before = (-1, 0)
        for base in self._files.bases:
            before = self._look_at_file(base, before)
        self._replay.finish_replay()
        self._look_at_segments()
        self._progress(self._whole, self._whole)
        return self._result

    def inspect_segments(self, inspect: InspectSegment, progress: OnProgress) -> None:
        """Have *inspect* read every segment again, once the log was verified."""
        # what lives where can't be known: that was reported
        if self._replay.index is None:
            return
        inspection = Inspection(self._disk, self._replay.index, self._seed, progress)
        inspection.inspect_all(inspect)
        self._result.unread_bytes = inspection.unread_bytes

    def _look_at_file(self, base: int, before: tuple[int, int]) -> tuple[int, int]:
        path = self._files.path(base)
        if before[0] >= 0 and not self._replay.may_follow(base, before[0]):
            self._damaged(
                path,
                0,
                f"the log before it ends at {before[0]}: a file is missing, cut or too long",
            )
        try:
            file = self._disk.open(path)
        except FileNotFoundError:  # reclaimed since the verification began
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
        """Continue without the entries of a file.

        The position of its last entry matters: an index may end between two entries.
        """
        _, end = self._files.span_of(base)
        self._replay.skip_missing(min(end, max(self._ends.values())) - 1)

    def _scan(self, file: File, base: int, before: tuple[int, int]) -> tuple[int, int]:
        self._result.files += 1
        self._result.bytes += self._ends[base] - base
        end = self._ends[base]
        self._look_at_head(file, base)
        if (expected := self._replay.ends.get(base, end)) != end:
            self._damaged(
                self._files.path(base),
                min(expected, end) - base,
                f"the file had {expected - base} bytes",
            )
        scan = FileScan(file, base=base, size=end - base, seed=self._seed)
        scan.position = base + FILE_HEAD
        # entries link across files, unless the file before is missing or damaged at its end
        if before[0] == base:
            scan.link = before[1]
        elif (first := scan.read_entry_head()) is not None:
            scan.link = first.link  # the entry before it was reclaimed
        self._appends[base] = _Appends()
        while scan.position < end:
            self._entries(scan)
            if scan.position < end and not self._pass_over(file, scan):
                return -1, 0
        return end, scan.link

    def _entries(self, scan: FileScan) -> None:
        appends = self._appends[scan.base]
        for head, data in scan.entries():
            self._result.entries += 1
            if head.kind in (APPEND, COPY):
                appends.places.append(head.position + ENTRY_HEAD)
                appends.lengths.append(head.length)
            self._replay.replay_entry(head, data)
            self._report_progress(head)

    def _pass_over(self, file: File, scan: FileScan) -> bool:
        """Judge an entry that is not whole, and continue after it.

        Return False if nothing follows it.
        """
        position, last = scan.position, scan.base == self._files.bases[-1]

        # a torn tail, or nothing but padding
        if last and scan.proof_beyond(position) is None and position >= self._replay.covered:
            if not self._result.held and not scan.ends_in_padding():
                self._result.torn_bytes = scan.end - position
            return False

        # the running store was writing there
        if last and self._result.held and self._goes_beyond(file, scan):
            return False
        if last and self._result.held and self._written_since(file, scan):
            return True

        self._damaged(
            self._files.path(scan.base),
            position - scan.base,
            "an entry is not whole, or does not follow the one before it",
        )
        self._replay.skip_missing(position)
        return scan.skip_to_next_entry()

    def _goes_beyond(self, file: File, scan: FileScan) -> bool:
        """Return whether the entry ends after the file's end when the verification began.

        It was being written then.
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
        """Return whether the entry is whole when it is read again.

        It was being written, or another one was being cut back, at the first read.
        """
        again = FileScan(file, base=scan.base, size=scan.end - scan.base, seed=self._seed)
        again.position, again.link = scan.position, scan.link
        if next(again.entries(), None) is None:
            return False
        scan.drop_read_ahead()
        return True

    def _id(self) -> UUID:
        """Return the store's id, from the first file with a whole head."""
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
            or base < self._replay.covered
        ):
            self._damaged(path, 0, "its head is not whole")
        elif not self._result.held:
            self._result.torn_bytes = self._ends[base] - base

    def _look_at_segments(self) -> None:
        """Check that every append of every segment is where the up-to-date index says."""
        index = self._replay.index
        if index is None:
            return
        self._result.segments = len(index.by_number)
        missing: set[int] = set()
        for segment in index.by_number.values():
            with suppress(StorageError):  # reported when the index was read
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
        """Add a damage; two at the same place become one."""
        for at, known in enumerate(
            self._result.damages[-_LOOKED_BACK:], max(0, len(self._result.damages) - _LOOKED_BACK)
        ):
            if (known.file, known.offset) == (path, offset):
                self._result.damages[at] = Damage(path, offset, f"{known.reason}; {reason}")
                return
        self._result.damages.append(Damage(path, offset, reason))

    def _report_progress(self, head: EntryHead) -> None:
        done = self._result.bytes - self._ends[self._files.base_of(head.position)] + head.position
        if done - self._reported >= _STEP_BYTES:
            self._reported = done
            self._progress(done, self._whole)

    def _size(self, base: int) -> int:
        try:
            return self._disk.stat(self._files.path(base)).size
        except FileNotFoundError:
            return 0
