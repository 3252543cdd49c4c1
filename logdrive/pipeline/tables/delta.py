"""Delta tables of append-only files, through delta-rs: created, read, appended to.

A table itself keeps how far it has come: per segment, as a Delta application transaction whose
version is the offset of the next batch. Delta checks it against concurrent writers, and it survives
checkpoints, compaction and vacuum. Spark's own checkpoint plays no part.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from logdrive.errors import LogdriveError, StorageError
from logdrive.pipeline.decode.schema import plain_schema
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

    def next_offset(self, segment: str) -> int:
        """Return the offset in *segment* of the next batch to read, 0 if it was never read."""
        return int(self._delta.transaction_version(_application_id(segment)) or 0)

    def add_files(
        self, files: Sequence[AddedFile], ends: SegmentEnds, note: Mapping[str, Any] | None = None
    ) -> None:
        """Add *files* and advance to *ends*, in one durable commit with *note* in its metadata.

        Raises `ConcurrentWriterError` if another writer was faster, `StorageError` if the table
        can't be written.
        """
        now = time.time_ns() // 1_000_000
        actions = [
            AddAction(
                file.name,
                file.size,
                {},
                now,
                True,
                orjson.dumps({"numRecords": file.rows}).decode(),
            )
            for file in files
        ]

        # where this commit ends, twice: for `read_last_note`, and for Delta's check of writers
        metadata = {_METADATA: orjson.dumps({"ends": ends} | dict(note or {})).decode()}
        marks = [
            Transaction(_application_id(segment), end) for segment, (_, end) in sorted(ends.items())
        ]

        try:
            properties = CommitProperties(custom_metadata=metadata, app_transactions=marks)
            self._delta.create_write_transaction(
                actions, "append", plain_schema(self._schema), commit_properties=properties
            )
            self._delta.update_incremental()
        except CommitFailedError as error:
            raise ConcurrentWriterError(
                f"{self.path}: another pipeline writes this table: {error}"
            ) from error
        except (DeltaError, OSError) as error:
            raise _storage_error(self.path, error) from error
        # delta-rs does not sync its log: a commit is durable only now
        sync_file(os.path.join(self.path, "_delta_log", f"{self._delta.version():020d}.json"))

    def read_last_note(self) -> dict[str, Any]:
        """Return `ends` and the note of our last commit, {} for a new table."""
        for commit in self._delta.history(_HISTORY):
            if _METADATA in commit:  # else it is maintenance, such as a compaction
                return dict(orjson.loads(commit[_METADATA]))
        return {}

    @property
    def files(self) -> list[str]:
        """Paths of the files that are in the table now."""
        return [os.path.join(self.path, os.path.basename(uri)) for uri in self._delta.file_uris()]

    def read_rows(self, columns: Sequence[str], where: Any = None) -> pa.Table:
        """Return *columns* of the rows that match the Arrow expression *where*."""
        # delta-rs's own file system calls Python from Arrow's threads: one that is still at it when
        # the interpreter ends aborts the process
        files = SubTreeFileSystem(os.path.abspath(self.path), LocalFileSystem())
        dataset = self._delta.to_pyarrow_dataset(filesystem=files)
        return dataset.to_table(columns=list(columns), filter=where)

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


def create_table(path: str, schema: pa.Schema) -> AppendTable:
    """Open the table at *path*; create it if there is none.

    Raises `StorageError` if something else is there, or it can't be written.
    """
    try:
        delta = DeltaTable.create(path, schema=plain_schema(schema), mode="ignore")
    except (DeltaError, OSError) as error:
        raise _storage_error(path, error) from error
    return _check_columns(path, schema, delta)


def open_table(path: str, schema: pa.Schema) -> AppendTable:
    """Open the table at *path*. Raises `StorageError` if there is none."""
    try:
        return _check_columns(path, schema, DeltaTable(path))
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


def _check_columns(path: str, schema: pa.Schema, delta: DeltaTable) -> AppendTable:
    columns = [field.name for field in delta.schema().fields]
    if columns != schema.names:
        raise StorageError(
            f"{path} has other columns than this version writes: {', '.join(columns)}"
        )
    return AppendTable(path, schema, delta)


def _application_id(segment: str) -> str:
    return f"logdrive:{segment}"
