"""Replays a store's log and compares the result with its indexes.

The newer index must be what a replay from the older one leads to. Recovery applies the same rules
in code of its own: this is a second opinion.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import starmap, zip_longest
from operator import eq
from uuid import UUID

from logdrive.errors import StorageError
from logdrive.host.disk import Disk
from logdrive.model.numbers import ABSENT
from logdrive.store.index.index import ContradictionError, Index, SegmentIndex
from logdrive.store.index.index_file import INDEX_NAME, OLDER_NAME, load_index
from logdrive.store.index.pages import PageFiles
from logdrive.store.index.snapshot import Snapshot
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles, file_name
from logdrive.store.log.format import CREATE, ENTRY_HEAD, EntryHead
from logdrive.store.log.log import Tip

_TRIES = 3
_ALL = StoreLimits(pages=1 << 40)
"""Keeps all pages that were read once: a store in use may remove the files meanwhile."""


class Replay:
    """Applies the entries of a log in their order, and compares the result with the newer index.

    *damaged* is called with a file, an offset in it, and what is wrong there.

    *covered* is the position up to which an index proves that the log was durable; *ends* has the
    ends of log files that the newer index knows. *index*, after `finish_replay`, is the state of
    the whole log, None if it can't be known.
    """

    def __init__(
        self, disk: Disk, directory: str, damaged: Callable[[str, int, str], None]
    ) -> None:
        self.index: Index | None = None
        self.covered = 0
        self.ends: dict[int, int] = {}
        self._directory = directory
        self._damaged = damaged
        self._newer, self._older = self._loaded(disk)
        # the end of what was replayed
        self._tip = Tip(0)
        # the position at which the replay began
        self._start = 0
        # True after a missing entry that no index makes up for
        self._stopped = False

    def _loaded(self, disk: Disk) -> tuple[Snapshot | None, Snapshot | None]:
        """Return the newer and the older index, with all their pages in memory.

        They may be replaced meanwhile, so only errors that each attempt finds are reported.
        """
        for tries in range(_TRIES):
            damages: list[tuple[str, int, str]] = []
            older, newer = (self._load(disk, name, damages) for name in (OLDER_NAME, INDEX_NAME))
            indexes = [snapshot.index for snapshot in (older, newer) if snapshot is not None]
            try:
                for index in indexes:
                    for file in index.paged_files():
                        index.pages.check(
                            file,
                            lambda path, offset, why: damages.append((path, offset, why)),  # noqa: B023
                        )
                if not damages:
                    break
            except FileNotFoundError as error:
                if tries == _TRIES - 1:
                    damages.append((str(error.filename), 0, "a file of the index is missing"))
        for damage in dict.fromkeys(damages):  # the two indexes share most files
            self._damaged(*damage)
        return newer, older

    def _load(self, disk: Disk, name: str, damages: list[tuple[str, int, str]]) -> Snapshot | None:
        for _ in range(_TRIES):
            try:
                return load_index(disk, self._directory, name, _ALL)
            except FileNotFoundError:
                continue
            except ValueError as error:
                damages.append((self._path(name), 0, f"the index: {error}"))
                break
        return None

    def begin_replay(self, disk: Disk, bases: Sequence[int], store_id: UUID) -> None:
        """Begin with the oldest state from which the log of *store_id* can be replayed.

        The log has files at *bases*.
        """
        for name, snapshot in ((INDEX_NAME, self._newer), (OLDER_NAME, self._older)):
            if snapshot is not None and snapshot.store_id != store_id:
                self._damaged(
                    self._path(name),
                    0,
                    f"the index is of store {snapshot.store_id}, not of {store_id}",
                )
        ours = [
            snapshot
            for snapshot in (self._newer, self._older)
            if snapshot is not None and snapshot.store_id == store_id
        ]
        self._newer = ours[0] if ours else None
        self.covered = max((snapshot.tip.position for snapshot in ours), default=0)
        self.ends = dict(ours[0].index.files.ends) if ours else {}
        if bases[0] == 0 and all(end in bases for end in self.ends.values()):
            self.index = Index(
                LogFiles(self._directory, bases),
                PageFiles(disk, self._directory, store_id, _ALL.page),
                _ALL,
            )
        elif ours:
            self._continue_from(ours[-1])
            self._start = self._tip.position
        else:
            self._damaged(
                self._path(INDEX_NAME),
                0,
                "the log's beginning was freed, and no index says what lives in it",
            )
        if self.index is not None:
            for base in bases:
                self.index.files.add_unknown_file(base)
            if (first := self.index.files.base_of(self._start)) not in bases:
                self._damaged(
                    self.index.files.path(first),
                    0,
                    "the file is missing, and the older index needs the log from there",
                )
                self.skip_missing(self._start)

    def may_follow(self, base: int, end: int) -> bool:
        """Return whether the file of *base* can be the next one after a file that ends at *end*.

        Files between them may have been reclaimed.
        """
        return base == end or (end < base and end in self.ends.values() and end < self._start)

    def _continue_from(self, snapshot: Snapshot) -> None:
        before = self.index
        self.index, self._tip = snapshot.index, snapshot.tip
        for base in before.files.bases if before is not None else ():
            self.index.files.add_unknown_file(base)

    def replay_entry(self, head: EntryHead, data: "bytes | memoryview") -> None:
        """Apply the next entry; an entry that the index already has is skipped."""
        if self.index is None or self._stopped or head.position < self._tip.position:
            return
        if self._newer is not None and head.position >= self._newer.tip.position:
            self._compare(self._newer)
        try:
            if head.kind == CREATE:
                self.index.create_segment(head.segment, str(data, "utf-8"), head.time_ms)
            else:
                self.index.apply_entry(head, head.position + ENTRY_HEAD, data)
        except (ContradictionError, UnicodeDecodeError, StorageError) as error:
            base = self.index.files.base_of(head.position)
            self._damaged(
                os.path.join(self._directory, file_name(base)), head.position - base, str(error)
            )
            self.skip_missing(head.position)
            return
        self._tip = Tip(head.position + ENTRY_HEAD + head.length, head.position, head.crc)

    def skip_missing(self, position: int) -> None:
        """Skip the missing entry at *position*: continue from the newer index if that has it."""
        if position < self._tip.position:
            return
        if self._newer is not None and position < self._newer.tip.position:
            self._continue_from(self._newer)
        else:
            self._stopped = True
        self._newer = None

    def finish_replay(self) -> None:
        """Compare with the newer index if no entry followed its end."""
        if self._newer is not None:
            self._compare(self._newer)

    def _compare(self, newer: Snapshot) -> None:
        self._newer = None
        index = self.index
        if index is None or index is newer.index:
            return
        path = self._path(INDEX_NAME)
        if self._tip.last != newer.tip.last or self._tip.link != newer.tip.link:
            self._damaged(
                path,
                0,
                f"the index ends with the entry at {newer.tip.last}, the log before it "
                f"with that at {self._tip.last}",
            )
        with suppress(StorageError):  # reported when the index was read
            self._compare_segments(index, newer.index, path)
        if index.next_number != newer.index.next_number:
            self._damaged(
                path,
                0,
                f"the next segment's number is {index.next_number}, not {newer.index.next_number}",
            )

    def _compare_segments(self, index: Index, newer: Index, path: str) -> None:
        numbers, indexed_numbers = _numbers(index), _numbers(newer)
        for number in sorted(index.by_number.keys() | newer.by_number.keys()):
            replayed, indexed = index.by_number.get(number), newer.by_number.get(number)
            if replayed is None or indexed is None:
                self._damaged(
                    path,
                    0,
                    f"segment number {number} is only in "
                    f"{'the index' if replayed is None else 'the log'}",
                )
            elif numbers.get(number) != indexed_numbers.get(number) or not _same(replayed, indexed):
                self._damaged(path, 0, f"segment {indexed.name} is not what the log says")

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def _same(one: SegmentIndex, other: SegmentIndex) -> bool:
    """Return whether two indexes of a segment are equal; they may have millions of extents."""
    if (one.name, one.info()) != (other.name, other.info()):
        return False
    return all(starmap(eq, zip_longest(one.extents(one.start), other.extents(other.start))))


def _numbers(index: Index) -> dict[int, dict[bytes, int]]:
    """Return the numbers of all segments that have some."""
    numbers = index.stored_numbers.all_numbers()
    for segment in index.by_number.values():
        known = numbers.setdefault(segment.number, {})
        known.update(segment.numbers)
        numbers[segment.number] = {
            writer: number for writer, number in known.items() if number != ABSENT
        }
    return {
        number: known for number, known in numbers.items() if known and number in index.by_number
    }
