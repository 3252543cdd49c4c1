"""Delta tables of append-only files: read, and appended to.

A table itself keeps how far it has come: per segment, as a Delta application transaction whose
version is the offset of the next batch. Another writer's commit that sets the same is a conflict,
and it survives checkpoints, compaction and vacuum. Spark's own checkpoint plays no part.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from logdrive.errors import LogdriveError, StorageError
from logdrive.pipeline.decode.schema import plain_schema
from logdrive.pipeline.tables.check_files import name_damaged_of
from logdrive.pipeline.tables.delta_log import (
    METADATA,
    Action,
    AddedVersions,
    add_file,
    append_entry,
    commit_info,
    conflict_of,
    entry_path,
    note_of,
    read_added,
    read_entry,
    remove_file,
    set_mark,
)
from logdrive.pipeline.tables.failures import storage_error
from logdrive.pipeline.tables.features import (
    foreign_features,
)
from logdrive.pipeline.tables.files import AddedFile

_HISTORY = 50  # limit on commits searched for our last one: the newer ones are maintenance
SegmentEnds = Mapping[str, tuple[int, int]]
"""Per segment, the offsets at which a commit begins and ends."""


class ConcurrentWriterError(LogdriveError):
    """Another writer has added to the table since it was read."""


@dataclass(frozen=True, slots=True)
class OtherCommit:
    """A commit of ours that another process has made."""

    note: dict[str, Any]  # with `ends`
    files: list[AddedFile]  # of rows, that it added


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """Files whose rows were written again, into one."""

    version: int  # of the table that had them
    removed: list[AddedFile]
    added: AddedFile


class AppendTable:
    """One Delta table of append-only files."""

    def __init__(self, path: str, schema: pa.Schema, delta: DeltaTable) -> None:
        self.path = path
        self.schema = schema
        # the version that was opened, or written last; each commit makes the next one
        self.version = int(delta.version())
        # the id that the table got when it was made: one that is made anew has another
        self.table_id = str(delta.metadata().id)
        # names of the columns by which the table is partitioned, if any
        self.partition_by = tuple(delta.metadata().partition_columns)
        self._delta = delta  # of this version or an earlier one
        # how many files of rows it was given since it was opened
        self.added = 0
        # numbers that were set or asked for, by the application's id
        self._marks: dict[str, int | None] = {}
        # versions of others that a commit has passed over since `take_up`
        self._passed: list[int] = []

    def next_offset(self, segment: str) -> int:
        """Return the offset in *segment* of the next batch to read, 0 if it was never read."""
        return self.mark(segment) or 0

    def mark(self, name: str) -> int | None:
        """Return the number that a commit has set for *name*, None if none has."""
        application = _application_id(name)
        if application not in self._marks:
            self._marks[application] = self._delta.transaction_version(application)
        return self._marks[application]

    def added_since(self, version: int, upto: int | None = None) -> AddedVersions:
        """Return the versions behind *version*, each with the files of rows that it added.

        The last is *upto*, or the one that was opened or written last. Raises `StorageError` if
        the table has not come as far as *version*, or its log no longer goes back to there.
        """
        last = self.version if upto is None else min(upto, self.version)
        if version > self.version:
            raise StorageError(
                f"{self.path} is at version {self.version}, and version {version} of it was read "
                "before: it was made anew or restored. Make the tables that are derived from it "
                "anew, with `logdrive pipeline rebuild`"
            )
        return read_added(self.path, version, last)

    def add_files(
        self,
        files: Sequence[AddedFile],
        ends: SegmentEnds,
        note: Mapping[str, Any] | None = None,
        marks: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Add *files* and advance to *ends*, in one durable commit with *note* in its metadata.

        *marks* are further numbers to set, by name (`mark`). Another writer that sets one of the
        same names, or ends of the same segments, conflicts. Raises `ConcurrentWriterError` if
        another writer was faster, `StorageError` if the table can't be written.
        """
        # where this commit ends, twice: for `read_last_note`, and for the check of writers
        numbers = {segment: end for segment, (_, end) in ends.items()} | dict(marks)
        applications = {_application_id(name): number for name, number in sorted(numbers.items())}
        actions = [
            commit_info("WRITE", {"ends": ends} | dict(note or {})),
            *(set_mark(application, number) for application, number in applications.items()),
            *(add_file(file, self.partition_by, new_rows=True) for file in files),
        ]
        self._commit(actions, self.version)
        self._marks |= applications
        self.added += len(files)

    def take_up(self, names: Iterable[str]) -> list[OtherCommit]:
        """Return what other processes of ours have committed since the last call, in order.

        Raises `ConcurrentWriterError` if another writer has set a mark of *names*, which the caller
        is about to set, or has changed the columns; and `StorageError`.
        """
        applications = {_application_id(name) for name in names}
        found: list[OtherCommit] = []
        while self._passed or os.path.exists(entry_path(self.path, self.version + 1)):
            if not self._passed:
                self.version += 1
                self._passed.append(self.version)
            version = self._passed[0]
            actions = read_entry(self.path, version)
            self._refuse_conflict(actions, applications, ())
            self._passed.pop(0)
            for action in actions:
                if "txn" in action:
                    self._marks[action["txn"]["appId"]] = action["txn"]["version"]
            if (note := note_of(actions)) is not None:
                ((_, files),) = read_added(self.path, version - 1, version)
                found.append(OtherCommit(dict(note), files))
        return found

    def replace_files(self, joined: JoinedFiles) -> None:
        """Put a file with the rows of others in their place, in one durable commit.

        Raises `ConcurrentWriterError` if another writer has done so, and `StorageError`.
        """
        actions = [
            commit_info("OPTIMIZE"),
            *(remove_file(file, self.partition_by) for file in joined.removed),
            add_file(joined.added, self.partition_by, new_rows=False),
        ]
        self._commit(actions, joined.version)

    def take_rows_out(
        self, old: Sequence[AddedFile], new: Sequence[AddedFile], marks: Mapping[str, int]
    ) -> None:
        """Put the files *new*, with some of the rows of *old*, in their place, and set *marks*.

        To those who follow the table that is no new version of rows (`added_since`). Raises as
        `add_files` does.
        """
        applications = {_application_id(name): number for name, number in sorted(marks.items())}
        actions = [
            commit_info("DELETE"),
            *(set_mark(application, number) for application, number in applications.items()),
            *(remove_file(file, self.partition_by) for file in old),
            *(add_file(file, self.partition_by, new_rows=False) for file in new),
        ]
        self._commit(actions, self.version)
        self._marks |= applications

    def delete_old_files(self) -> None:
        """Delete all files that the present version does not have: older versions end with them.

        Nobody else may write the table meanwhile. Raises `StorageError`.
        """
        try:
            self._current().vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
            self._delta.update_incremental()
            self.version = int(self._delta.version())
        except (DeltaError, OSError) as error:
            raise storage_error(self.path, error) from error

    def _commit(self, actions: Sequence[Action], seen: int) -> None:
        """Commit *actions*, which were made of what the version *seen* has.

        Versions of other writers since then, such as those of maintenance, are no hindrance unless
        they are about the same.
        """
        applications = {action["txn"]["appId"] for action in actions if "txn" in action}
        removed = {action["remove"]["path"] for action in actions if "remove" in action}
        passed: list[int] = []
        try:
            while True:
                while seen < self.version or os.path.exists(entry_path(self.path, seen + 1)):
                    seen += 1
                    self._refuse_conflict(read_entry(self.path, seen), applications, removed)
                    if seen > self.version:
                        passed.append(seen)
                try:
                    append_entry(self.path, seen + 1, actions)
                except FileExistsError:
                    continue
                self.version = seen + 1
                self._passed += passed
                return
        except OSError as error:
            raise storage_error(self.path, error) from error

    def _refuse_conflict(
        self, actions: Sequence[Action], applications: Collection[str], removed: Collection[str]
    ) -> None:
        why = conflict_of(actions, applications, removed)
        if why is not None:
            raise ConcurrentWriterError(f"{self.path}: another pipeline writes this table: {why}")

    def _current(self) -> DeltaTable:
        """Return the table as of the present version, for reading."""
        if int(self._delta.version()) < self.version:
            self._delta.update_incremental()
        return self._delta

    def read_last_note(self) -> dict[str, Any]:
        """Return `ends` and the note of our last commit, {} for a new table."""
        for commit in self._current().history(_HISTORY):
            if METADATA in commit:  # else it is maintenance, such as a compaction
                return dict(orjson.loads(commit[METADATA]))
        return {}

    @property
    def foreign_features(self) -> list[str]:
        """What of Delta's the table asks of its readers, but for what we give to tables."""
        return foreign_features(self._delta)

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the table has now."""
        return [field.name for field in self._current().schema().fields]

    @property
    def files(self) -> list[str]:
        """Paths of the files that are in the table now."""
        return [os.path.join(self.path, file.name) for file in self.live_files()]

    def live_files(self) -> list[AddedFile]:
        """Return the files that are in the table now, those added last at the end."""
        there = pa.table(self._current().get_add_actions()).sort_by("modification_time")
        columns = there.select(["path", "size_bytes", "num_records"]).to_pydict().values()
        partitions = there["partition"].to_pylist() if self.partition_by else [{}] * there.num_rows
        return [
            AddedFile(unquote(name), size, rows, {key: _text(value) for key, value in part.items()})
            for name, size, rows, part in zip(*columns, partitions, strict=True)
        ]

    def read_rows(self, columns: Sequence[str], where: Any = None) -> pa.Table:
        """Return *columns* of the rows that match the Arrow expression *where*.

        Raises `UnreadableFileError`.
        """
        # delta-rs's own file system calls Python from Arrow's threads: one that is still at it when
        # the interpreter ends aborts the process
        files = SubTreeFileSystem(os.path.abspath(self.path), LocalFileSystem())
        dataset = self._current().to_pyarrow_dataset(filesystem=files, schema=self._read_schema())
        from pyarrow.dataset import ParquetFragmentScanOptions  # delta-rs imports it here, too

        checked = ParquetFragmentScanOptions(page_checksum_verification=True)
        with name_damaged_of(self):
            return dataset.to_table(
                columns=list(columns), filter=where, fragment_scan_options=checked
            )

    def _read_schema(self) -> pa.Schema:
        """Return the table's columns, and those that one of an earlier version lacks."""
        there = pa.schema(self._current().schema().to_arrow())
        lacking = [field for field in plain_schema(self.schema) if field.name not in there.names]
        return pa.schema([*there, *lacking])


def _text(value: Any) -> str | None:
    """Return the value of a partition column as the log has it."""
    return None if value is None else str(value)


def _application_id(segment: str) -> str:
    return f"logdrive:{segment}"
