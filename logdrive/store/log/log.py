"""The commit log on disk: its format, how it grows, and what a start may find.

**One log for all segments.** It is a sequence of bytes, cut into files: `log-<base>` holds the
bytes from position *base* (16 hex digits), and the next file begins where it ends. Data is written
once, here, and stays; a segment is a list of places in the log (`logdrive.store.index.index`).
Integers are little-endian.

A file begins with a head of 64 bytes::

    magic "LOGDRIVE" · u32 version (3) · u32 CRC-32 of this head with 0 here ·
    16 bytes store id · i64 base · zeros

The store's id is made with its first file and repeated in each. Version 1 had only the kinds of
entry up to 4, and in version 2 a MERGE had no data. A store whose last file has an older version
begins a new file before it writes. So an older program never mistakes an entry that it does not
know for a torn tail, and never skips the changes of a MERGE. After the head come entries, back to
back, each a head of 88 bytes and its data::

    magic "LDE1" · u32 CRC · u32 link · u32 CRC-32 of the data · u32 length of the data ·
    u32 events · u32 segment · u32 kind · i64 position · i64 committed · i64 ms since 1970 ·
    16 bytes writer · i64 previous · i64 number

- CRC is the CRC-32 of the rest of the head, seeded with the CRC-32 of the store id. *link* is the
  CRC of the entry before (0 for the first). *position* is the entry's place in the log. So an entry
  of another store, of another place, or of a history that was cut off is never accepted as part of
  this log.
- *committed* is how much of the log was durable when the entry was written: where its group begins.
- The kinds of entry are in the table below. Segments' numbers are never used again.

The kinds::

    1 CREATE    the data is the name of segment number *segment*, the next in turn
    2 APPEND    the data goes to the segment's end, and the writer's number goes from
                *previous* to *number* (absent: -2^63)
    3 UPDATE    the same without data
    4 SEAL      the segment accepts no more appends
    5 TRUNCATE  the segment, which began at *previous*, begins at *number*
    6 DELETE    the segment is gone, with its writers' numbers
    7 MERGE     all bytes of segment *number* go to the end of *segment*, which is
                *previous*; segment *number* is gone, with its writers' numbers. The data
                is changes of numbers of *segment*, as UPDATEs would make them, each
                16 bytes writer · i64 previous · i64 number
    8 COPY      the append at offset *previous* of the segment, if the segment still has
                it, is here, too, from now on

**Commit.** All entries of a group are written with one write and one fdatasync, then they are
acknowledged. Meanwhile the next group is collected in memory; none of it is written before. Data is
never acknowledged before the file's name and head are durable: a new file is created and synced,
and its directory is synced, first. If a write fails before its sync (a full disk), the file is
durably cut back to what it was, and the log goes on. If a sync fails, nothing is known about the
group, and a second sync would report success without having written it. So the file is cut back,
and the log refuses everything from then on.

Files are written past the page cache if the file system allows it (`logdrive.host.direct_file`), in
blocks of 4 KiB. Up to 4,095 zeros follow the end of the file that grows, until it is closed or the
next one is begun. A start cuts them off silently.

**Reclaiming.** A file without data of any segment is removed, wherever in the log it is; the
positions of later files do not change. What little is left in a file may be copied to the log's end
first (`logdrive.store.reclaim`). A file is removed only once a start needs its entries with neither
of the two indexes (`logdrive.store.index.index_file`).

**Start.** A start reads the log from the end of the index checkpoint (the whole log if there is no
good checkpoint) and replays it. It stops at the first entry that is not whole, and must tell two
cases apart:

- *A torn tail*: the rest belongs to a group whose sync had not returned. A power cut keeps any part
  of such a group, even its end without its beginning. Nothing in it was acknowledged, so it is cut
  off, and the cut is reported. A last file without a whole head, and with nothing after it, is
  removed likewise.
- *Damage*: there is proof that the bytes were durable once. Proof is a whole entry later in the
  file whose *committed* is beyond the place, or a later file, or an index checkpoint that covers
  it. The start is refused, with file and offset: cutting there would silently lose acknowledged
  data.

Damage inside the very last group before a crash can't be distinguished from a torn tail. After a
clean stop the checkpoint covers that group, too.
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
    """The end of a log: its *position*, and its last entry.

    That entry is at *last* (-1 for none) and has the CRC *link*.
    """

    position: int
    last: int = -1
    link: int = 0


@dataclass(slots=True, eq=False)
class CommitGroup:
    """Encoded entries that become durable together, beginning at *start* of the log.

    *end*, *last* and *link* are the log's tip after the group.
    """

    stage: Stage
    start: int
    end: int
    last: int
    link: int


class Log:
    """The growing end of the log.

    The event loop fills the next group (`fits`, `add_entry`, `seal_group`) while the store's one
    sync thread writes the previous one. All other methods run on that thread, or before it starts.
    *tip* is the end of what is durable; *rolls* counts the files begun since the start.
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
        # the last log file
        self._file: File | None = None
        # the group being filled
        self._open: CommitGroup | None = None
        # the group sealed last, which the open one follows
        self._sealed: CommitGroup | None = None
        # True if the last file must not be written to
        self._must_roll = False
        # why the log refuses everything, after a failed sync
        self._broken: StorageError | None = None

    # The group that is open ----------------------------------------------------------------------

    def fits(self, length: int) -> bool:
        """Return whether an entry with *length* bytes of data fits into the open group.

        The group's file must have room for it, too. The first entry of a group always fits.
        """
        if self._file is None or self._must_roll:
            return False
        group, size = self._open, ENTRY_HEAD + length
        if group is not None and group.end + size - group.start > self._limits.group:
            return False

        # an entry larger than a file gets a file of its own
        used = (group or self._sealed or self).end - self.files.bases[-1]
        return used == FILE_HEAD or used + size <= self._limits.log_file

    def add_entry(self, entry: LogEntry) -> None:
        """Add *entry*, which must fit, to the open group, and set its place.

        Costs about 3 µs, and 0.3 ms per MiB. Raises `TransientError` if there is no memory for a
        group; nothing is changed then.
        """
        group = self._open or self._open_group(ENTRY_HEAD + entry.length)
        position = group.end
        head, group.link = encode_head(
            entry, seed=self._seed, link=group.link, position=position, committed=group.start
        )
        group.stage.add((head, *entry.parts))
        group.last = position
        entry.place = position + ENTRY_HEAD
        group.end = entry.place + entry.length

    def seal_group(self) -> CommitGroup:
        """Close the open group and return it; the next `commit_group` must be given this one."""
        group = self._open
        if group is None:
            raise ValueError("no group is open")
        self._sealed, self._open = group, None
        return group

    def drop_uncommitted(self) -> None:
        """Drop all groups that are not durable, after a failure."""
        self._sealed = self._open = None

    @property
    def end(self) -> int:
        """The position at which the durable log ends."""
        return self.tip.position

    def _open_group(self, size: int) -> CommitGroup:
        """Open a group whose first entry has *size* bytes."""
        room = max(size, self._limits.group)
        try:
            self._open = self._next_group(room)
        except OSError as error:
            raise TransientError(
                f"the store can't allocate {room} bytes for a group: {os_error_text(error)}"
            ) from error
        return self._open

    def _next_group(self, room: int) -> CommitGroup:
        # the group before is being written: this one begins where it will end
        if (before := self._sealed) is not None:
            return CommitGroup(
                before.stage.next_stage(room), before.end, before.end, before.last, before.link
            )
        if self._file is None:
            raise TransientError("the store is closed")
        return CommitGroup(self._file.stage(room), self.end, *self.tip)

    # On the sync thread --------------------------------------------------------------------------

    def commit_group(self, group: CommitGroup) -> None:
        """Make *group*, the one sealed last, durable.

        Raises `TransientError` if it could not be written, and the log is as before; `StorageError`
        if the log has failed for good.
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
            # the next start must not read from the page cache what is not on the disk
            with contextlib.suppress(OSError):
                file.truncate(self.tip.position - self.files.bases[-1])
            raise self._over(
                f"{self._path()} could not be synced: {os_error_text(error)}"
            ) from error
        faults.reach("store.commit.after_sync")
        self.tip = Tip(group.end, group.last, group.link)

    def begin_next_file(self) -> None:
        """Begin a new log file; no group may be sealed or open. Raises as `commit_group` does."""
        before = self._usable()
        position = self.tip.position
        # no write to the old file if this fails: a half-made next file may begin at its end
        self._must_roll = True
        faults.reach("store.roll.before_create")
        try:
            if self._limits.direct:
                self._cut_zeros(before, position - self.files.bases[-1])
            file = self._new_file(position)
        except OSError as error:
            raise TransientError(
                f"the store can't create {self.files.path(position)}: {os_error_text(error)}"
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
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def open_last_file(self, store_is_new: bool) -> None:
        """Open the last file for writing; create the first file of a new store.

        The file is synced: if the previous process was killed, what the start has read may be in
        the page cache only. Raises OSError.
        """
        if store_is_new:
            self._file = self._new_file(0)
            self.tip = Tip(FILE_HEAD)
        else:
            self._file = self._open_file(self._path())
            self._file.datasync()
            self._disk.sync_directory(self.files.directory)

            # an older version has fewer kinds of entry: write into a new file
            head = decode_file_head(self._file.pread(FILE_HEAD, 0), self.files.bases[-1])
            self._must_roll = head is None or head.version != VERSION

    def _new_file(self, base: int) -> File:
        """Return a new file that is durable with its head and its name.

        Raises OSError; the file is removed then, before anything was synced.
        """
        path = self.files.path(base)
        with contextlib.suppress(FileNotFoundError):
            # left by a failed attempt; no entry was ever acknowledged in it
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
        return self._open_file(path)

    def _write_head(self, file: File, base: int) -> None:
        file.append([encode_file_head(self.store_id, base)])
        try:
            file.datasync()
            self._disk.sync_directory(self.files.directory)
        except OSError as error:
            raise self._over(
                f"{self.files.path(base)} could not be synced: {os_error_text(error)}"
            ) from error

    def _open_file(self, path: str) -> File:
        return self._disk.open(path, write=True, direct=self._limits.direct)

    def _cut_zeros(self, file: File, size: int) -> None:
        """Cut the zeros off the end of *file*, durably, so that it ends at *size*.

        The next file begins there. Raises OSError.
        """
        file.truncate(size)
        try:
            file.datasync()
        except OSError as error:
            raise self._over(
                f"{self._path()} could not be synced: {os_error_text(error)}"
            ) from error

    def _cut_back(self, file: File) -> None:
        """Undo a failed write, durably: the next file begins where this one ends."""
        size = self.tip.position - self.files.bases[-1]
        try:
            # a disk that became read-only wrote nothing, and would refuse to truncate
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
