"""Keeps a table quick to open and to read while it grows by small commits.

- Small files are joined (`join_files`).
- The log gets checkpoints, from which readers go on instead of from its first entry.
- Now and then expired entries of the log are deleted, and files that no version of the last day
  has, those of crashed micro-batches among them.

This is done by an executor beside the commits, so that no commit waits for it. It only reads the
table, and writes files that are not in it yet: what it has joined is committed by the writer.
"""

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future

import orjson
import pyarrow as pa
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from logdrive.errors import LogdriveError
from logdrive.pipeline.tables.delta import AppendTable, ConcurrentWriterError, JoinedFiles
from logdrive.pipeline.tables.delta_log import entry_path, remove_drafts
from logdrive.pipeline.tables.files import sync_file
from logdrive.pipeline.tables.join_files import JOIN_FILES, choose_files, join_files

_CHECKPOINT_COMMITS = 100  # commits since the last checkpoint that are worth one
_CHECKPOINT_SHARE = 200  # a checkpoint of n actions is worth writing every n-th part of commits
_SWEEP_COMMITS = 10_000  # commits between two deletions of what has expired

_Result = JoinedFiles | None


class TableUpkeep:
    """Upkeep of *table*, one job at a time, in *executor*."""

    def __init__(self, table: AppendTable, executor: Executor) -> None:
        self._table = table
        self._executor = executor
        # the job that runs, or has run and is not collected
        self._job: Future[_Result] | None = None
        # how many files the last job that looked for small ones knew, of those added since opened
        self._seen = table.added - len(table.files)
        # version of the last checkpoint, and how many actions it has
        self._checkpoint = _last_checkpoint(table.path)

    def after_commit(self) -> bool:
        """Go on with the upkeep after a commit; return True if the table now has joined files.

        Commits what was joined meanwhile. Raises `StorageError` if that can't be committed.
        """
        joined = False
        if self._job is not None:
            if not self._job.done():
                return False
            joined = self._collect()
        if (work := self._due_work()) is not None:
            self._job = self._executor.submit(work)
        return joined

    def finish(self) -> None:
        """Wait for the job that runs, and commit what it has joined. Raises `StorageError`."""
        if self._job is not None:
            self._collect()

    def abandon(self) -> None:
        """Wait for the job that runs, and drop what it has joined."""
        if self._job is not None:
            joined, self._job = _result_of(self._job), None
            if joined is not None:
                os.unlink(os.path.join(self._table.path, joined.added.name))

    def _due_work(self) -> Callable[[], _Result] | None:
        version, size = self._checkpoint
        behind = self._table.version - version
        if behind >= max(_CHECKPOINT_COMMITS, size // _CHECKPOINT_SHARE):
            sweep = self._table.version // _SWEEP_COMMITS > version // _SWEEP_COMMITS
            return lambda: _checkpoint_and_sweep(self._table.path, sweep=sweep)
        if self._table.added - self._seen >= JOIN_FILES:
            self._seen = self._table.added
            return lambda: _join_some(self._table.path, self._table.schema)
        return None

    def _collect(self) -> bool:
        """Commit what the finished job has joined; return True if it is in the table."""
        assert self._job is not None
        joined, self._job = _result_of(self._job), None
        self._checkpoint = _last_checkpoint(self._table.path)
        if joined is None:
            return False
        try:
            self._table.replace_files(joined)
        except ConcurrentWriterError:  # such as Spark's OPTIMIZE
            os.unlink(os.path.join(self._table.path, joined.added.name))
            return False
        self._seen = self._table.added - JOIN_FILES  # there may be more
        return True


def _result_of(job: Future[_Result]) -> _Result:
    """Return what *job* has joined, None if nothing, or if it failed: it is tried again."""
    try:
        return job.result()
    except (DeltaError, LogdriveError, OSError, pa.ArrowException) as error:
        structlog.get_logger("logdrive.pipeline").warning(
            "the upkeep of a table failed", error=str(error)
        )
        return None


def _join_some(path: str, schema: pa.Schema) -> _Result:
    """Join small files of the table at *path*; return None if there are none worth it."""
    table = AppendTable(path, schema, DeltaTable(path))
    chosen = choose_files(table.live_files())
    if not chosen or set(table.columns) - set(schema.names):  # not all of its columns are ours
        return None
    names = set(table.columns) - set(table.partition_by)
    rows = pa.schema([field for field in schema if field.name in names])
    return JoinedFiles(table.version, chosen, join_files(path, rows, chosen))


def write_checkpoint(path: str) -> int:
    """Write a checkpoint of the table at *path*; return its version.

    Any process may do that at any time. Raises DeltaError and OSError.
    """
    delta = DeltaTable(path)
    delta.create_checkpoint()
    # delta-rs does not sync it
    sync_file(entry_path(path, int(delta.version())).replace(".json", ".checkpoint.parquet"))
    sync_file(_hint_path(path))
    return int(delta.version())


def _checkpoint_and_sweep(path: str, *, sweep: bool) -> None:
    """Write a checkpoint of the table at *path*; with *sweep*, delete what has expired."""
    write_checkpoint(path)
    if sweep:
        delta = DeltaTable(path)
        delta.cleanup_metadata()
        delta.vacuum(dry_run=False, full=True)
        remove_drafts(path)


def _last_checkpoint(path: str) -> tuple[int, int]:
    """Return the version of the last checkpoint, and how many actions it has; 0, 0 without one."""
    try:
        with open(_hint_path(path), "rb") as file:
            hint = orjson.loads(file.read())
        return int(hint["version"]), int(hint["size"])
    except (OSError, ValueError, KeyError):
        return 0, 0


def _hint_path(path: str) -> str:
    return os.path.join(path, "_delta_log", "_last_checkpoint")
