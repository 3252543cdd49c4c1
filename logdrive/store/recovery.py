"""Recovery: a start finds out what is durable, cuts off a torn tail, and refuses damage.

`logdrive.store.log.log` has the rules.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from logdrive.errors import StorageError, file_error_text
from logdrive.host.disk import Disk
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.index import ContradictionError, Index
from logdrive.store.index.index_file import INDEX_NAME, OLDER_NAME, load_index
from logdrive.store.index.pages import PageFiles
from logdrive.store.index.snapshot import Snapshot
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles, bases_in
from logdrive.store.log.format import CREATE, ENTRY_HEAD, FILE_HEAD, EntryHead, seed_of
from logdrive.store.log.log import Log, Tip
from logdrive.store.log.scan import FileScan


@dataclass(slots=True)
class Recovery:
    """What a start found.

    *index* says whether the index checkpoint was used, or why not. *cut_file* is "" if nothing was
    cut off.
    """

    entries: int = 0
    read_bytes: int = 0
    cut_bytes: int = 0
    cut_file: str = ""
    cut_offset: int = 0
    index: str = "used"

    def __str__(self) -> str:
        text = (
            f"index {self.index}, {self.entries} entries replayed from {self.read_bytes} "
            "bytes of log"
        )
        return text + (
            f", {self.cut_bytes} torn bytes cut from {self.cut_file} at offset {self.cut_offset}"
            if self.cut_file
            else ""
        )


@dataclass(slots=True)
class Recovered:
    """The durable state, and the log, ready for appends.

    *indexed* is the tip that a good index on disk covers, None if there is none. *names* are the
    paged files that this index needs.
    """

    log: Log
    index: Index
    indexed: Tip | None
    names: frozenset[str]
    report: Recovery


def recover(
    disk: Disk, directory: str, limits: StoreLimits, new_id: Callable[[], UUID]
) -> Recovered:
    """Return the store in *directory*, created with the id from *new_id* if it is missing.

    Raises `StoreDamagedError`, `StorageError`.
    """
    try:
        return _Start(disk, directory, limits).recover(new_id)
    except OSError as error:
        raise StorageError(
            f"the store in {directory} can't be opened: {file_error_text(error)}"
        ) from error


class _Start:
    """One start; *_index*, *_tip* and *_report* grow while the log is replayed."""

    def __init__(self, disk: Disk, directory: str, limits: StoreLimits) -> None:
        self._disk = disk
        self._limits = limits
        self._directory = directory
        # the log files on disk
        self._there = LogFiles(directory, bases_in(disk.names(directory)))
        # where each of them ends, by base
        self._ends = {
            base: base + disk.stat(self._there.path(base)).size for base in self._there.bases
        }
        self._index = self._empty(self._there, UUID(int=0))
        self._tip = Tip(0)
        self._report = Recovery()
        # up to where an index, or a later file, proves that the log was durable
        self._covered = 0
        # the base of a later file whose creation was interrupted
        self._begun = 0

    def recover(self, new_id: Callable[[], UUID]) -> Recovered:
        # the older index is read only where it may be needed: both are large
        newer = self._load(INDEX_NAME)
        older = self._load(OLDER_NAME) if newer is None else None
        self._covered = max(
            (snapshot.tip.position for snapshot in (newer, older) if snapshot is not None),
            default=0,
        )
        self._drop_torn_file()
        if not self._there.bases:
            return self._new_store(new_id())

        store_id = self._store_id()
        self._index = self._empty(self._there, store_id)
        self._choose(newer, older, store_id)
        self._check_continuity()
        self._replay(store_id)

        # an index may end in a file that is shorter now
        end = min(self._tip.position, self._ends[self._there.bases[-1]])
        if end < self._covered:
            raise self._damage(
                end, f"the log ends here, but the index covers {self._covered} bytes of it"
            )
        self._check_live_files()

        log = Log(self._disk, self._index.files, store_id, self._limits, self._tip)
        log.open_last_file(store_is_new=False)
        # with the older index, or none, the next checkpoint must write a whole new one
        used = newer if self._report.index == "used" else None
        if used is None:
            return Recovered(log, self._index, None, frozenset(), self._report)
        return Recovered(log, self._index, used.tip, used.names, self._report)

    def _new_store(self, store_id: UUID) -> Recovered:
        if self._covered:
            raise StorageError(
                f"the log files of {self._directory} are gone, but its index covers "
                f"{self._covered} bytes of them"
            )
        files = LogFiles(self._directory, [0])
        log = Log(self._disk, files, store_id, self._limits, Tip(0))
        log.open_last_file(store_is_new=True)
        self._report.index = "new"
        return Recovered(log, self._empty(files, store_id), None, frozenset(), self._report)

    def _empty(self, files: LogFiles, store_id: UUID) -> Index:
        return Index(
            files, PageFiles(self._disk, self._directory, store_id, self._limits.page), self._limits
        )

    # The index -----------------------------------------------------------------------------------

    def _load(self, name: str) -> Snapshot | None:
        """Return the index in the file *name*; None if it is missing or damaged.

        The report gives the reason for the newer index.
        """
        try:
            return load_index(self._disk, self._directory, name, self._limits)
        except FileNotFoundError:
            reason = "missing"
        except ValueError as error:
            reason = f"damaged ({error})"
        if name == INDEX_NAME:
            self._report.index = reason
        return None

    def _choose(self, newer: Snapshot | None, older: Snapshot | None, store_id: UUID) -> None:
        """Begin with the first index that fits the log.

        If neither fits, begin with an empty index, provided that the log is there from its
        beginning.
        """
        self._covered = max(self._begun, _proven_position(newer, store_id))
        if newer is not None:
            self._report.index = self._misfit(newer, store_id)
            if not self._report.index:
                self._report.index = "used"
                self._begin_with(newer)
                return
            older = self._load(OLDER_NAME)
        self._covered = max(self._covered, _proven_position(older, store_id))
        if older is not None and not self._misfit(older, store_id):
            self._report.index += f", {OLDER_NAME} used"
            self._begin_with(older)
        elif (first := self._there.bases[0]) > 0:
            remedy = f"restore {INDEX_NAME} and {OLDER_NAME} from a backup"
            raise StoreDamagedError(
                self._there.path(first),
                0,
                f"the log before it was freed, and the index is {self._report.index}: {remedy}",
            )

    def _begin_with(self, snapshot: Snapshot) -> None:
        self._index, self._tip = snapshot.index, snapshot.tip
        # files begun after it was written, and files that it had already forgotten
        for base in self._there.bases:
            self._index.files.add_unknown_file(base)

    def _misfit(self, snapshot: Snapshot, store_id: UUID) -> str:
        """Return what is wrong with *snapshot*, "" for nothing.

        The log must have the entry that the index ends with, and the index's files must exist.
        """
        position, last, link = snapshot.tip
        if snapshot.store_id != store_id:
            return "of another store"
        # the tip is behind the last entry, or behind the head of the file begun after it
        if last >= 0 and self._end_of(last, link, store_id) not in (position, position - FILE_HEAD):
            return "does not fit the log"
        missing = snapshot.index.pages.missing(snapshot.index.paged_files())
        return f"damaged ({missing} is missing)" if missing else ""

    def _end_of(self, position: int, crc: int, store_id: UUID) -> int:
        """Return where the entry with *crc* at *position* ends, -1 if it is not there."""
        base = self._there.base_of(position)
        if not base <= position < self._ends[base]:
            return -1
        with self._scan(base, store_id) as scan:
            scan.position = position
            head = scan.read_entry_head()
            return (
                position + ENTRY_HEAD + head.length if head is not None and head.crc == crc else -1
            )

    def _check_live_files(self) -> None:
        """Check that every log file with data of a segment exists and has its length.

        Files without such data may be gone.
        """
        files = self._index.files
        for base in list(files.bases):
            # missing: reclaimed after the index was written, unless a segment has data in it
            if base not in self._ends:
                if files.live[base]:
                    raise StoreDamagedError(
                        files.path(base),
                        0,
                        f"the file is missing, and {files.live[base]} bytes of segments with it",
                    )
                files.remove_file(base)
            elif (
                base != files.bases[-1]
                and files.ends.setdefault(base, self._ends[base]) != self._ends[base]
            ):
                expected = files.ends[base] - base
                raise StoreDamagedError(
                    files.path(base),
                    min(expected, self._ends[base] - base),
                    f"the file had {expected} bytes: it was cut, or is too long",
                )

    # The log -------------------------------------------------------------------------------------

    def _check_continuity(self) -> None:
        """Check that, from the index's end on, every file ends where the next begins.

        A file is begun only once the one before it is durable.
        """
        expected = self._index.files.base_of(self._tip.position)
        for base in self._there.bases:
            if base >= self._there.base_of(self._tip.position):
                if base != expected:
                    raise self._discontinuity(base, expected)
                expected = self._ends[base]

    def _discontinuity(self, base: int, expected: int) -> StoreDamagedError:
        reason = f"the log before it ends at {expected}: a file is missing, cut or too long"
        return StoreDamagedError(self._there.path(base), 0, reason)

    def _drop_torn_file(self) -> None:
        """Remove a last file whose creation was interrupted: nothing in it was acknowledged."""
        if not self._there.bases:
            return
        base = self._there.bases[-1]
        path = self._there.path(base)
        with self._scan(base) as scan:
            if self._id_in(scan) is not None:
                return
        if len(self._there.bases) > 1 and (before := self._ends[self._there.bases[-2]]) != base:
            raise self._discontinuity(base, before)
        # entries are written only once the head is durable, so this file lost its head later
        if base < self._covered or self._ends[base] > base + FILE_HEAD:
            raise StoreDamagedError(
                path, 0, "its head is not whole, but more than a head was written"
            )
        self._begun = base  # everything before it was durable when it was begun
        self._report_cut(path, 0, self._ends[base] - base)
        self._disk.remove(path)
        self._disk.sync_directory(self._there.directory)
        self._there.remove_file(base)

    def _store_id(self) -> UUID:
        base = self._there.bases[0]
        with self._scan(base) as scan:
            if (store_id := self._id_in(scan)) is None:
                raise StoreDamagedError(self._there.path(base), 0, "its head is not whole")
            return store_id

    def _replay(self, store_id: UUID) -> None:
        """Apply all entries from the tip on; cut off what is torn at the log's end."""
        for base in self._there.bases:
            # the index covers it; the last file is scanned all the same, for what is torn
            if self._ends[base] <= self._tip.position and base != self._there.bases[-1]:
                continue
            with self._scan(base, store_id) as scan:
                scan.position = started = max(self._tip.position, base + FILE_HEAD)
                scan.link = self._tip.link
                for head, data in scan.entries():
                    self._take(head, data)
                self._report.read_bytes += scan.position - started
                self._tip = self._tip._replace(position=scan.position)
                if scan.position < scan.end:
                    self._cut_if_torn(scan)

    def _take(self, head: EntryHead, data: "bytes | memoryview") -> None:
        try:
            if head.kind == CREATE:
                self._index.create_segment(head.segment, str(data, "utf-8"), head.time_ms)
            else:
                self._index.apply_entry(head, head.position + ENTRY_HEAD, data)
        except (ContradictionError, UnicodeDecodeError) as error:
            raise self._damage(head.position, str(error)) from error
        self._tip = Tip(head.position + ENTRY_HEAD + head.length, head.position, head.crc)
        self._report.entries += 1

    def _cut_if_torn(self, scan: FileScan) -> None:
        """Cut the log at the scan's end, unless there is proof that the rest was durable."""
        position, path = scan.position, self._there.path(scan.base)
        # proof: a later file was begun only once this one was durable
        if scan.base != self._there.bases[-1]:
            raise self._damage(
                position, "an entry is not whole, but the log goes on in another file"
            )
        # proof: an index covers this position
        if position < self._covered:
            raise self._damage(
                position,
                f"an entry is not whole, but the index covers {self._covered} bytes of the log",
            )
        # proof: an entry was written when this position was durable
        if (proof := scan.proof_beyond(position)) is not None:
            raise self._damage(
                position,
                f"an entry is not whole, but there is a later one at offset {proof - scan.base}",
            )
        # padding is in every file that was not closed in good order: no reason for a report
        if not scan.ends_in_padding():
            self._report_cut(path, position - scan.base, scan.end - position)
        file = self._disk.open(path, write=True)
        try:
            file.truncate(position - scan.base)
            file.datasync()
        finally:
            file.close()

    # ---------------------------------------------------------------------------------------------

    @contextmanager
    def _scan(self, base: int, store_id: UUID | None = None) -> Iterator[FileScan]:
        """Open the file of *base*; with *store_id*, its head must have that id."""
        file = self._disk.open(self._there.path(base))
        try:
            seed = 0 if store_id is None else seed_of(store_id)
            scan = FileScan(file, base=base, size=self._ends[base] - base, seed=seed)
            if store_id is not None and self._id_in(scan) != store_id:
                raise StoreDamagedError(
                    self._there.path(base), 0, f"its head is not whole, or not of store {store_id}"
                )
            yield scan
        finally:
            file.close()

    def _id_in(self, scan: FileScan) -> UUID | None:
        try:
            head = scan.read_file_head()
            return head.store_id if head is not None else None
        except ValueError as error:
            raise StorageError(f"{self._there.path(scan.base)}: {error}") from error

    def _damage(self, position: int, reason: str) -> StoreDamagedError:
        base = self._there.base_of(position)
        return StoreDamagedError(self._there.path(base), position - base, reason)

    def _report_cut(self, path: str, offset: int, size: int) -> None:
        self._report.cut_file, self._report.cut_offset = path, offset
        self._report.cut_bytes += size


def _proven_position(snapshot: Snapshot | None, store_id: UUID) -> int:
    """Return up to where *snapshot* proves that the log of *store_id* was durable."""
    return snapshot.tip.position if snapshot is not None and snapshot.store_id == store_id else 0
