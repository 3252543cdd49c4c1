"""Keeps a copy of all tables of a directory in a bucket, for readers elsewhere.

The tables on this machine stay the ones that are written. What the copy needs next follows from
what it has, so that a publication which was stopped or killed at any moment goes on.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson
from deltalake.exceptions import DeltaError

from logdrive.errors import StorageError
from logdrive.pipeline.publish.bucket import Bucket
from logdrive.pipeline.publish.snapshot import (
    HINT,
    LOG,
    TableSnapshot,
    list_tables,
    take_snapshot,
)
from logdrive.pipeline.publish.steps import Steps, plan_steps, readable_version
from logdrive.pipeline.tables.failures import storage_error
from logdrive.pipeline.tables.upkeep import write_checkpoint
from logdrive.pipeline.tasks import check_stop, stopping_on

_MARK: Final = "_logdrive.json"
"""An object beside the log of a copy: which table it is of."""
_THREADS: Final = 8  # objects that are written at a time
_SNAPSHOTS: Final = 5  # limit on tries, where files of the table vanish while they are read


@dataclass(slots=True)
class TableTotals:
    """What was done to the copy of one table."""

    table: str
    version: int
    """The version that the copy has now."""
    files: int = 0
    """Files of rows that were written."""
    bytes: int = 0
    entries: int = 0
    """Entries and checkpoints of the log that were written."""
    deleted: int = 0
    """Objects that were deleted, as the table has lost these files."""


@dataclass(slots=True)
class PublishTotals:
    """What was done to the copies of all tables, in one round or several."""

    tables: dict[str, TableTotals] = field(default_factory=dict)

    def add_table(self, totals: TableTotals) -> None:
        """Add what was done to one copy."""
        before = self.tables.setdefault(totals.table, TableTotals(totals.table, 0))
        before.version = totals.version
        before.files += totals.files
        before.bytes += totals.bytes
        before.entries += totals.entries
        before.deleted += totals.deleted

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {"tables": [asdict(totals) for totals in self.tables.values()]}


OnFile = Callable[[int, int], None]
"""Called after each file of rows with how many bytes were written, and how many are to be."""


class Publisher:
    """Copies the tables in *directory* to *bucket*, one after the other."""

    def __init__(
        self, directory: str, bucket: Bucket, on_file: OnFile = lambda _, __: None
    ) -> None:
        self._directory = os.path.abspath(directory)
        self._bucket = bucket
        self._on_file = on_file
        # what was done so far
        self.totals = PublishTotals()
        # the objects of each copy, once they were listed: nobody else writes there
        self._there: dict[str, dict[str, int]] = {}
        # the hint that each copy was given
        self._hints: dict[str, bytes] = {}

    def publish(self, stop: threading.Event) -> None:
        """Make the copies what the tables are now, and add what was done to `totals`.

        Raises `StorageError` after the other tables, and `StoppedError` once *stop* is set; then a
        later call goes on.
        """
        errors = []
        with stopping_on(stop):
            for table in self._tables():
                try:
                    self._publish_table(table)
                except StorageError as error:
                    errors.append(str(error))
                except BaseException:
                    self._forget(table)
                    raise
        if errors:
            raise StorageError("\n".join(errors))

    def plan(self, *, replace: bool) -> PublishTotals:
        """Return what `publish` would do now, after `drop_replaced` with *replace*."""
        totals = PublishTotals()
        for table in self._tables():
            path = self._path(table)
            try:
                snapshot, there = take_snapshot(path), self._objects(table)
                dropped = len(there) if replace and self._is_replaced(table, snapshot) else 0
                if dropped:
                    there = {}
                else:
                    self._refuse_other(table, snapshot)
                steps = plan_steps(snapshot, there)
                if steps is not None:
                    counts = len(steps.files), steps.bytes, len(steps.log), len(steps.obsolete)
                else:  # a checkpoint would be made first
                    new = {n: size for n, size in snapshot.live.items() if there.get(n) != size}
                    counts = len(new), sum(new.values()), 2, dropped
            except FileNotFoundError as error:
                raise StorageError(f"{path} changes just now: try again") from error
            totals.add_table(TableTotals(table, snapshot.version, *counts))
        return totals

    def drop_replaced(self) -> list[str]:
        """Delete the copies of tables that were made anew since; return their names."""
        dropped = []
        for table in self._tables():
            if self._is_replaced(table, take_snapshot(self._path(table))):
                # the log first: what is left then is no table, and lacks no rows
                order = sorted(
                    self._objects(table), key=lambda name: (not name.startswith(LOG), name != _MARK)
                )
                for name in order:
                    self._bucket.delete_object(f"{table}/{name}")
                self._forget(table)
                dropped.append(table)
        return dropped

    def _tables(self) -> list[str]:
        tables = list_tables(self._directory)
        if not tables:
            raise StorageError(
                f"{self._directory} has no tables: run `logdrive pipeline run --to DIR` first"
            )
        return tables

    def _publish_table(self, table: str) -> None:
        path = self._path(table)
        for left in reversed(range(_SNAPSHOTS)):
            try:
                snapshot = take_snapshot(path)
                self._refuse_other(table, snapshot)
                steps = plan_steps(snapshot, self._objects(table))
                if steps is None:
                    snapshot = take_snapshot(path, write_checkpoint(path))
                    steps = plan_steps(snapshot, self._objects(table))
                assert steps is not None, "there is a checkpoint of this version now"
                self._copy(table, snapshot, steps)
                return
            except FileNotFoundError as error:  # a newer version may be without that file
                self._forget(table)
                if not left:
                    raise StorageError(
                        f"{error.filename} is missing: {path} is damaged, or its files vanish "
                        "faster than they are copied"
                    ) from error
            except (DeltaError, OSError) as error:
                self._forget(table)
                raise storage_error(path, error) from error
            except StorageError:
                self._forget(table)
                raise

    def _forget(self, table: str) -> None:
        """List the copy again before the next step: what there is is not known."""
        self._there.pop(table, None)

    def _refuse_other(self, table: str, snapshot: TableSnapshot) -> None:
        """Raise `StorageError` unless the copy is one of *snapshot*, or there is none."""
        if (reason := self._find_other(table, snapshot)) is not None:
            raise StorageError(
                f"{self._bucket.address}/{table} {reason}: publish to another place, or delete "
                "what is there (--replace does where the table was made anew)"
            )

    def _is_replaced(self, table: str, snapshot: TableSnapshot) -> bool:
        """Return whether the copy is of a table that was there before that of *snapshot*."""
        return self._copied_id(table) not in (None, snapshot.table_id)

    def _find_other(self, table: str, snapshot: TableSnapshot) -> str | None:
        """Return why the copy is not one of *snapshot*, None if it is, or there is none."""
        there = self._objects(table)
        published = readable_version(there)
        if self._copied_id(table) is None:
            return "has a table that was not published from here" if published >= 0 else None
        if self._is_replaced(table, snapshot):
            return "is the copy of a table that was made before this one"
        if published > snapshot.version:
            return f"is at version {published}, and the table at {snapshot.version}"
        entry = snapshot.entries.get(published, "")
        if entry in there:
            copied = self._bucket.read_object(f"{table}/{entry}")
            if copied != _read(snapshot, entry):
                return f"has another version {published}, as after a restore"
        return None

    def _copied_id(self, table: str) -> str | None:
        """Return the id of the table that the copy is of, None if there is no copy of ours."""
        if _MARK not in self._objects(table):
            return None
        mark = self._bucket.read_object(f"{table}/{_MARK}")
        return None if mark is None else str(orjson.loads(mark)["table"])

    def _copy(self, table: str, snapshot: TableSnapshot, steps: Steps) -> None:
        there, done = self._objects(table), TableTotals(table, snapshot.version)
        if _MARK not in there:
            self._put(table, _MARK, orjson.dumps({"table": snapshot.table_id}))
        try:
            self._put_files(table, snapshot, steps, done)
            for name in steps.log:
                check_stop()
                self._put(table, name, _read(snapshot, name))
                done.entries += 1
            self._put_hint(table, snapshot.hint)
            for name in steps.obsolete:
                check_stop()
                self._bucket.delete_object(f"{table}/{name}")
                del there[name]
                done.deleted += 1
        finally:
            done.version = readable_version(there)
            self.totals.add_table(done)

    def _put_hint(self, table: str, hint: bytes | None) -> None:
        if hint is not None and hint != self._hints.get(table):
            self._put(table, HINT, hint)
            self._hints[table] = hint

    def _put_files(
        self, table: str, snapshot: TableSnapshot, steps: Steps, done: TableTotals
    ) -> None:
        """Write files of rows, several at a time."""

        def put(name: str) -> str:
            check_stop()
            self._bucket.put_file(f"{table}/{name}", os.path.join(snapshot.path, name))
            return name

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="publish") as threads:
            running = [threads.submit(copy_context().run, put, name) for name in steps.files]
            try:
                for finished in as_completed(running):
                    name = finished.result()
                    self._there[table][name] = steps.files[name]
                    done.files += 1
                    done.bytes += steps.files[name]
                    self._on_file(done.bytes, steps.bytes)
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise

    def _put(self, table: str, name: str, data: bytes) -> None:
        self._bucket.put_bytes(f"{table}/{name}", data)
        self._there[table][name] = len(data)

    def _objects(self, table: str) -> dict[str, int]:
        if table not in self._there:
            self._there[table] = self._bucket.list_objects(table)
        return self._there[table]

    def _path(self, table: str) -> str:
        return os.path.join(self._directory, table)


def _read(snapshot: TableSnapshot, name: str) -> bytes:
    with open(os.path.join(snapshot.path, name), "rb") as file:
        return file.read()
