"""Delta tables of append-only files, through delta-rs: created, read, appended to.

A table itself keeps how far it has come: per segment, as a Delta application transaction whose
version is the offset of the next batch. Delta checks it against concurrent writers, and it survives
checkpoints, compaction and vacuum. Spark's own checkpoint plays no part.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from logdrive.errors import LogdriveError, StorageError
from logdrive.pipeline.decode.schema import plain_schema
from logdrive.pipeline.tables.delta_log import AddedVersions, entry_path, read_added
from logdrive.pipeline.tables.files import AddedFile, sync_file

_METADATA = "logdrive"  # key of our metadata in a commit
_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # in the messages of delta-rs
_HISTORY = 50  # limit on commits searched for our last one: the newer ones are maintenance

SegmentEnds = Mapping[str, tuple[int, int]]
"""Per segment, the offsets at which a commit begins and ends."""


class ConcurrentWriterError(LogdriveError):
    """Another writer has added to the table since it was read."""


class AppendTable:
    """One Delta table of append-only files."""

    def __init__(self, path: str, schema: pa.Schema, delta: DeltaTable) -> None:
        self.path = path
        self._schema = schema
        self._delta = delta  # the version that was opened, or written last

    @property
    def version(self) -> int:
        """The version that was opened, or written last; each commit makes the next one."""
        return int(self._delta.version())

    @property
    def table_id(self) -> str:
        """The id that the table got when it was made: one that is made anew has another."""
        return str(self._delta.metadata().id)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Names of the columns by which the table is partitioned, if any."""
        return tuple(self._delta.metadata().partition_columns)

    def next_offset(self, segment: str) -> int:
        """Return the offset in *segment* of the next batch to read, 0 if it was never read."""
        return self.mark(segment) or 0

    def mark(self, name: str) -> int | None:
        """Return the number that a commit has set for *name*, None if none has."""
        number = self._delta.transaction_version(_application_id(name))
        return None if number is None else int(number)

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
        # where this commit ends, twice: for `read_last_note`, and for Delta's check of writers
        metadata = {_METADATA: orjson.dumps({"ends": ends} | dict(note or {})).decode()}
        numbers = {segment: end for segment, (_, end) in ends.items()} | dict(marks)
        properties = CommitProperties(
            custom_metadata=metadata,
            app_transactions=[
                Transaction(_application_id(name), number)
                for name, number in sorted(numbers.items())
            ],
        )
        self._commit([self._add_action(file) for file in files], properties)

    def replace_files(
        self, old: Sequence[str], new: Sequence[AddedFile], marks: Mapping[str, int]
    ) -> None:
        """Remove the files with the paths *old*, and add *new*, which have no other rows.

        To those who follow the table that is no new version of rows (`added_since`). Raises as
        `add_files` does.
        """
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(os.path.relpath(path, self.path), False, now) for path in old
        ]
        for file in new:
            action = self._add_action(file)
            action.data_change = False
            actions.append(action)
        properties = CommitProperties(
            app_transactions=[
                Transaction(_application_id(name), number) for name, number in marks.items()
            ]
        )
        self._commit(actions, properties)

    def delete_old_files(self) -> None:
        """Delete all files that the present version does not have: older versions end with them.

        Nobody else may write the table meanwhile. Raises `StorageError`.
        """
        try:
            self._delta.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
            self._delta.update_incremental()
        except (DeltaError, OSError) as error:
            raise _storage_error(self.path, error) from error

    def select_rows(self, columns: Sequence[str], condition: str) -> pa.Table:
        """Return *columns* of the rows for which *condition*, in SQL, is true.

        Raises ValueError for a condition that is none.
        """
        names = ", ".join(f'"{name}"' for name in columns)
        query = f"SELECT {names} FROM rows WHERE ({condition})"  # noqa: S608 - the owner's own
        try:
            found = pa.table(QueryBuilder().register("rows", self._delta).execute(query).read_all())
        except (DeltaError, OSError, ValueError) as error:
            text = str(_storage_error(self.path, error))
            raise ValueError(text.partition("read or written: ")[2] or text) from error
        schema = plain_schema(self._schema)
        return found.cast(pa.schema([schema.field(name).with_nullable(True) for name in columns]))

    def _add_action(self, file: AddedFile) -> AddAction:
        return AddAction(
            file.name,
            file.size,
            {name: file.partition.get(name) for name in self.partition_by},
            time.time_ns() // 1_000_000,
            True,
            orjson.dumps({"numRecords": file.rows}).decode(),
        )

    def _commit(
        self, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties
    ) -> None:
        """Commit *actions*, durably."""
        before = self.version
        try:
            self._delta.create_write_transaction(
                list(actions),
                "append",
                self._delta.schema(),
                list(self.partition_by),
                commit_properties=properties,
            )
            self._delta.update_incremental()
        except CommitFailedError as error:
            raise ConcurrentWriterError(
                f"{self.path}: another pipeline writes this table: {error}"
            ) from error
        except (DeltaError, OSError) as error:
            raise _storage_error(self.path, error) from error
        # delta-rs does not sync its log: a commit is durable only now, as are others' before it
        for version in range(before + 1, self.version + 1):
            sync_file(entry_path(self.path, version))

    def read_last_note(self) -> dict[str, Any]:
        """Return `ends` and the note of our last commit, {} for a new table."""
        for commit in self._delta.history(_HISTORY):
            if _METADATA in commit:  # else it is maintenance, such as a compaction
                return dict(orjson.loads(commit[_METADATA]))
        return {}

    @property
    def files(self) -> list[str]:
        """Paths of the files that are in the table now."""
        return [
            os.path.join(self.path, unquote(name))
            for name in self._delta.get_add_actions()["path"].to_pylist()
        ]

    def read_rows(self, columns: Sequence[str], where: Any = None) -> pa.Table:
        """Return *columns* of the rows that match the Arrow expression *where*."""
        # delta-rs's own file system calls Python from Arrow's threads: one that is still at it when
        # the interpreter ends aborts the process
        files = SubTreeFileSystem(os.path.abspath(self.path), LocalFileSystem())
        dataset = self._delta.to_pyarrow_dataset(filesystem=files, schema=self._read_schema())
        return dataset.to_table(columns=list(columns), filter=where)

    def _read_schema(self) -> pa.Schema:
        """Return the table's columns, and those that one of an earlier version lacks."""
        there = pa.schema(self._delta.schema().to_arrow())
        lacking = [field for field in plain_schema(self._schema) if field.name not in there.names]
        return pa.schema([*there, *lacking])

    def compact_files(self) -> None:
        """Join small files, and delete files that no version of the last week has.

        Raises `StorageError`.
        """
        try:
            self._delta.optimize.compact()
            self._delta.vacuum(dry_run=False)
            self._delta.update_incremental()
        except (DeltaError, OSError) as error:
            raise _storage_error(self.path, error) from error


def create_table(path: str, schema: pa.Schema, partition_by: Sequence[str] = ()) -> AppendTable:
    """Open the table at *path* for writing rows of *schema*; create it if there is none.

    A new one is partitioned by the columns *partition_by* of *schema*. One that an earlier version
    made gets the columns that it lacks, but stays partitioned as it is: without a column to be
    partitioned by, it does without. Raises `StorageError` if something else is there, it has
    columns that *schema* lacks, or it can't be written.
    """
    try:
        delta = DeltaTable.create(
            path, schema=plain_schema(schema), mode="ignore", partition_by=list(partition_by)
        )
        missing = _missing_fields(path, schema, delta)
        if unknown := set(_columns(delta)) - set(schema.names):
            raise StorageError(
                f"{path} has columns that this version does not write: "
                f"{', '.join(sorted(unknown))}; use the version that made them, or fill another "
                "directory"
            )
        if added := [field for field in missing if field.name not in partition_by]:
            _add_columns(path, delta, added)
    except (DeltaError, OSError) as error:
        raise _storage_error(path, error) from error
    return AppendTable(path, schema, delta)


def open_table(path: str, schema: pa.Schema) -> AppendTable:
    """Open the table at *path* for reading rows of *schema*.

    A column that a table of an earlier version lacks is null. Raises `StorageError` if there is no
    table, or one of other columns.
    """
    try:
        delta = DeltaTable(path)
        _missing_fields(path, schema, delta)
        return AppendTable(path, schema, delta)
    except TableNotFoundError as error:
        log = os.path.join(path, "_delta_log")
        if not _is_listed(log):  # there may well be a table
            raise StorageError(
                f"{path} can't be read: run this as the user who owns the tables"
            ) from error
        raise StorageError(
            f"{path} is not a table: run `logdrive pipeline run --to DIR` first"
        ) from error
    except (DeltaError, OSError) as error:
        raise _storage_error(path, error) from error


def is_table(path: str) -> bool:
    """Return whether there is a table at *path*."""
    return os.path.isdir(path) and bool(DeltaTable.is_deltatable(path))


def open_table_as_it_is(path: str) -> AppendTable:
    """Open the table at *path*, whatever columns it has. Raises `StorageError` if there is none."""
    try:
        delta = DeltaTable(path)
        return AppendTable(path, pa.schema(delta.schema().to_arrow()), delta)
    except (DeltaError, OSError) as error:
        raise _storage_error(path, error) from error


def _is_listed(directory: str) -> bool:
    """Return False if *directory* may not be listed: Delta then takes it for missing."""
    try:
        os.listdir(directory)
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def _storage_error(path: str, error: Exception) -> StorageError:
    """Return *error* in one line: delta-rs prints its causes as a colored tree."""
    causes = [line.strip(" ↳") for line in _COLOR.sub("", str(error)).splitlines()]
    return StorageError(
        f"{path} can't be read or written: {': '.join(cause for cause in causes if cause)}"
    )


def _columns(delta: DeltaTable) -> dict[str, Any]:
    return {field.name: field for field in delta.schema().fields}


def _missing_fields(path: str, schema: pa.Schema, delta: DeltaTable) -> list[Any]:
    """Return the columns of *schema* that the table lacks, as Delta's fields.

    Raises `StorageError` unless they may be null, and the others are of the same types.
    """
    columns = _columns(delta)
    wanted = DeltaSchema.from_arrow(plain_schema(schema)).fields
    missing = [field for field in wanted if field.name not in columns]
    wrong = [field.name for field in missing if not field.nullable] + [
        field.name
        for field in wanted
        if field.name in columns and columns[field.name].type != field.type
    ]
    if wrong:
        raise StorageError(
            f"{path} has other columns than this version knows: {', '.join(wrong)} "
            f"{'is' if len(wrong) == 1 else 'are'} missing or of another type"
        )
    return missing


def _add_columns(path: str, delta: DeltaTable, fields: list[Any]) -> None:
    delta.alter.add_columns(fields)
    delta.update_incremental()
    sync_file(entry_path(path, int(delta.version())))


def _application_id(segment: str) -> str:
    return f"logdrive:{segment}"
