"""The commit log on disk: its format, how it grows, and what a start may find.

**One log for all segments.** It is a sequence of bytes, cut into files: `log-<base>` holds the
bytes from position *base* (16 hex digits), and the next file begins where it ends. Data is written
once, here, and stays; a segment is a list of places in the log (`logdrive.store.index.index`).
Integers are little-endian.

A file begins with a head of 64 bytes::

    magic "LOGDRIVE" · u32 version (3) · u32 CRC-32 of this head with 0 here ·
    16 bytes store id · i64 base · zeros

The store's id is made with its first file and repeated in each. Version 1 had only the kinds of
entry up to 4: a store whose last file is such a one begins a new file before it writes, so that an
older program never takes what it does not know for a torn tail. In version 2 a MERGE had no data;
the same is done there, so that an older program never passes over changes. Then entries follow,
back to back, a head of 88 bytes and the data each::

    magic "LDE1" · u32 CRC · u32 link · u32 CRC-32 of the data · u32 length of the data ·
    u32 events · u32 segment · u32 kind · i64 position · i64 committed · i64 ms since 1970 ·
    16 bytes writer · i64 previous · i64 number

- CRC is the CRC-32 of the head's bytes after it, begun with the CRC-32 of the store id. *link* is
  the CRC of the entry before (0 for the first). *position* is where in the log the entry stands. So
  an entry of another store, at another place, or left over from a history that was cut off never
  passes for one of this log.
- *committed* is how much of the log was durable when the entry was written: where its group begins.
- kind 1 CREATE: the data is the name of segment number *segment*, the next in turn; numbers are
  never used again. 2 APPEND: the data goes to the segment's end, the writer's number goes from
  *previous* to *number* (absent: -2^63), in one. 3 UPDATE: the same without data. 4 SEAL. 5
  TRUNCATE: the segment, which began at *previous*, begins at *number*. 6 DELETE. 7 MERGE: all that
  segment *number* has goes to the end of *segment*, which is *previous*, and segment *number* is
  gone, with its writers' numbers. The data are changes that come with it, 16 bytes writer · i64
  previous · i64 number each: what an UPDATE of *segment* would be. 8 COPY: the append at offset
  *previous* of the segment, if it still has it, lies here too from now on.

**Commit.** All entries of a group go into the file with one write and one fdatasync, then they are
acknowledged. While that goes on the next group is put together in memory; not a byte of it is
written before. Data is never acknowledged before the file's name and head are durable (a new file
is made, synced, and its directory synced, first). When a write fails before its sync (a full disk),
the file is durably cut back to what it was, and the log goes on. When a sync fails, nothing is
known of the group, and a second sync would report success without having written it: the file is
cut back, and the log refuses everything from then on.

Files are written past the page cache where the file system lets them (`logdrive.host.direct_file`),
in blocks of 4 KiB: up to 4,095 zeros follow the end of the one that grows, until it is closed or
another one is begun. A start cuts them off without a word.

**Freeing.** A file in which nothing of any segment lies is removed, wherever in the log it is; what
follows keeps its positions. What little is left in a file may be copied to the log's end first
(`logdrive.store.reclaim`). A file goes only once the entries in it are not needed for a start from
either of the two indexes (`logdrive.store.index.index_file`).

**A start** reads the log from where the index checkpoint ends (all of it where there is no good
one) and replays it. It stops at the first entry that is not whole:

- *A torn tail*: what follows belongs to a group whose sync had not come back. A power cut keeps any
  part of such a group, even its end without its beginning. Nothing of it was acknowledged from
  there on, so it is cut, and the cut is reported. A last file of which not even the head is whole,
  and which holds no more, is taken away likewise.
- *Damage*: there is proof that the bytes were durable once. Proof is a whole entry later in the
  file whose *committed* is beyond the place; or a later file; or an index checkpoint that covers
  it. The start is refused, naming file and offset. Cutting there would lose acknowledged data
  without a word.

What can't be told from a torn tail is damage inside the very last group before a crash; after a
clean stop the checkpoint covers that too.
"""

import contextlib
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from logdrive.errors import StorageError, TransientError, os_error_text
from logdrive.host import faults
from logdrive.host.disk import Disk, File
from logdrive.host.file import Stage
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles
from logdrive.store.log.format import (
    ENTRY_HEAD,
    FILE_HEAD,
    VERSION,
    LogEntry,
    decode_file_head,
    encode_file_head,
    encode_head,
    seed_of,
)


class Tip(NamedTuple):
    """Where a log ends: *position*; and its last entry, by its position (-1 for none) and its
    CRC.
    """

    position: int
    last: int = -1
    link: int = 0


@dataclass(slots=True, eq=False)
class CommitGroup:
    """What becomes durable together: encoded entries, which begin at *start* of the log; *end*,
    *last* and *link* are its tip then.
    """

    stage: Stage
    start: int
    end: int
    last: int
    link: int


class Log:
    """The end of the log, where it grows.

    The next group is put together on the event loop (`fits`, `add_entry`, `seal_group`) while the
    one before it is written, and everything else is done, by the store's one sync thread, or before
    that runs. *tip* is the end of what is durable; *rolls* counts the files begun since the start.
    """

    def __init__(
        self, disk: Disk, files: LogFiles, store_id: UUID, limits: StoreLimits, tip: Tip
    ) -> None:
        self.tip = tip
        self.files = files
        self.store_id = store_id
        self.rolls = 0
        self._disk = disk
        self._limits = limits
        self._seed = seed_of(store_id)
        self._file: File | None = None
        self._open: CommitGroup | None = None
        self._sealed: CommitGroup | None = None
        self._must_roll = False
        self._broken: StorageError | None = None

    # The group that is open ----------------------------------------------------------------------

    def fits(self, length: int) -> bool:
        """Tell whether an entry with *length* bytes of data fits into the open group and its file.

        One in a new group always does.
        """
        if self._file is None or self._must_roll:
            return False
        group, size = self._open, ENTRY_HEAD + length
        if group is not None and group.end + size - group.start > self._limits.group:
            return False
        used = (group or self._sealed or self).end - self.files.bases[-1]
        return used == FILE_HEAD or used + size <= self._limits.log_file

    def add_entry(self, entry: LogEntry) -> None:
        """Put *entry*, which must fit, at the end of the open group, and set its place.

        Costs about 3 µs, and 0.3 ms a MiB.

        Raises `TransientError` where there is no memory for a group; nothing is changed then.
        """
        group = self._open or self._begun(ENTRY_HEAD + entry.length)
        position = group.end
        head, group.link = encode_head(
            entry, seed=self._seed, link=group.link, position=position, committed=group.start
        )
        group.stage.add((head, *entry.parts))
        group.last = position
        entry.place = position + ENTRY_HEAD
        group.end = entry.place + entry.length

    def seal_group(self) -> CommitGroup:
        """Close the open group and return it, to be committed; the next one follows it."""
        group = self._open
        if group is None:
            raise ValueError("no group is open")
        self._sealed, self._open = group, None
        return group

    def drop_uncommitted(self) -> None:
        """Drop what is not durable, after a failure: the next group follows what is."""
        self._sealed = self._open = None

    @property
    def end(self) -> int:
        """Where what is durable ends."""
        return self.tip.position

    def _begun(self, size: int) -> CommitGroup:
        """Open a group whose first entry has *size* bytes."""
        room = max(size, self._limits.group)
        try:
            self._open = self._following(room)
        except OSError as error:
            raise TransientError(
                f"the store gets no {room} bytes of memory: {os_error_text(error)}"
            ) from error
        return self._open

    def _following(self, room: int) -> CommitGroup:
        if (before := self._sealed) is not None:
            return CommitGroup(
                before.stage.next_stage(room), before.end, before.end, before.last, before.link
            )
        if self._file is None:
            raise TransientError("the store is closed")
        return CommitGroup(self._file.stage(room), self.end, *self.tip)

    # On the sync thread --------------------------------------------------------------------------

    def commit_group(self, group: CommitGroup) -> None:
        """Make *group*, which was sealed last, durable.

        Raises `TransientError` where it could not be written, and the log is as before;
        `StorageError` where it is over.
        """
        file = self._usable()
        faults.reach("store.commit.before_write")
        try:
            group.stage.append()
        except OSError as error:
            self._cut_back(file)
            raise TransientError(
                f"the store can't write to {self._path()}: {os_error_text(error)}"
            ) from error
        faults.reach("store.commit.after_write")
        faults.reach("store.commit.before_sync")
        try:
            file.datasync()
        except OSError as error:
            # the next start must not take for durable what only the page cache has
            with contextlib.suppress(OSError):
                file.truncate(self.tip.position - self.files.bases[-1])
            raise self._over(
                f"{self._path()} could not be synced: {os_error_text(error)}"
            ) from error
        faults.reach("store.commit.after_sync")
        self.tip = Tip(group.end, group.last, group.link)

    def begin_next_file(self) -> None:
        """Begin a new file. Nothing is sealed or open. Raises as `commit_group` does."""
        before = self._usable()
        position = self.tip.position
        # until it is done: what a failed attempt left behind must not be overtaken by the file
        # before it
        self._must_roll = True
        faults.reach("store.roll.before_create")
        try:
            if self._limits.direct:
                self._cut_zeros(before, position - self.files.bases[-1])
            file = self._new_file(position)
        except OSError as error:
            raise TransientError(
                f"the store can't begin {self.files.path(position)}: {os_error_text(error)}"
            ) from error
        before.close()
        self._file = file
        self.files.begin_file(position)
        self.tip = self.tip._replace(position=position + FILE_HEAD)
        self.rolls += 1
        self._must_roll = False

    def _usable(self) -> File:
        if self._broken is not None:
            raise StorageError(str(self._broken))
        if self._file is None:
            raise TransientError("the store is closed")
        return self._file

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def open_last_file(self, store_is_new: bool) -> None:
        """Open the last file for writing; make the first one where the store is new.

        Raises OSError.

        What a start has found whole may be in the page cache only, if the process before was
        killed: it is synced here, before anything is told of it.
        """
        if store_is_new:
            self._file = self._new_file(0)
            self.tip = Tip(FILE_HEAD)
        else:
            self._file = self._opened(self._path())
            self._file.datasync()
            self._disk.sync_directory(self.files.directory)
            head = decode_file_head(self._file.pread(FILE_HEAD, 0), self.files.bases[-1])
            self._must_roll = head is None or head.version != VERSION

    def _new_file(self, base: int) -> File:
        """Return a new file, durable with its head and its name.

        Raises OSError, and leaves none, before anything was synced.
        """
        path = self.files.path(base)
        with contextlib.suppress(FileNotFoundError):
            # left by an attempt that failed; no entry was ever acknowledged in it
            self._disk.remove(path)
        file = self._disk.open(path, write=True, create=True)
        try:
            self._write_head(file, base)
        except BaseException:
            with contextlib.suppress(OSError):
                self._disk.remove(path)
            raise
        finally:
            file.close()
        return self._opened(path)

    def _write_head(self, file: File, base: int) -> None:
        file.append([encode_file_head(self.store_id, base)])
        try:
            file.datasync()
            self._disk.sync_directory(self.files.directory)
        except OSError as error:
            raise self._over(
                f"{self.files.path(base)} could not be synced: {os_error_text(error)}"
            ) from error

    def _opened(self, path: str) -> File:
        return self._disk.open(path, write=True, direct=self._limits.direct)

    def _cut_zeros(self, file: File, size: int) -> None:
        """Let *file*, of *size* bytes, durably end where the next one begins, without what fills
        its last block up. Raises OSError.
        """
        file.truncate(size)
        try:
            file.datasync()
        except OSError as error:
            raise self._over(
                f"{self._path()} could not be synced: {os_error_text(error)}"
            ) from error

    def _cut_back(self, file: File) -> None:
        """Take a failed write back, durably: the next file begins where this one ends."""
        size = self.tip.position - self.files.bases[-1]
        try:
            # a disk that has become read-only took nothing, and would not be cut either
            if file.stat().size != size:
                file.truncate(size)
                file.datasync()
        except OSError as error:
            raise self._over(
                f"{self._path()} could not be cut back after a failed write: {os_error_text(error)}"
            ) from error

    def _path(self) -> str:
        return self.files.path(self.files.bases[-1])

    def _over(self, reason: str) -> StorageError:
        self._broken = StorageError(reason)
        return self._broken
