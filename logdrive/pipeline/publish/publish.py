"""Keeps a copy of all tables of a directory in a bucket, for readers elsewhere.

The tables on this machine stay the ones that are written. What the copy needs next follows from
what it has, so that a publication which was stopped or killed at any moment goes on.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Final

from deltalake.exceptions import DeltaError

from logdrive.errors import StorageError
from logdrive.pipeline.bronze.erased import last_finished
from logdrive.pipeline.publish.bucket import Bucket
from logdrive.pipeline.publish.mark import MARK, CopyMark, decode_mark
from logdrive.pipeline.publish.snapshot import (
    HINT,
    LOG,
    TableSnapshot,
    list_tables,
    take_snapshot,
)
from logdrive.pipeline.publish.steps import Steps, plan_steps, readable_version
from logdrive.pipeline.publish.totals import PublishTotals, TableTotals
from logdrive.pipeline.tables.failures import storage_error
from logdrive.pipeline.tables.upkeep import write_checkpoint
from logdrive.pipeline.tasks import check_stop, stopping_on

_EVENTS: Final = "bronze/events"
_BRONZE: Final = "bronze/"
_DERIVED: Final = ("gold", "silver")  # rooms of tables that may be made anew after an erasure
_THREADS: Final = 8  # objects that are written at a time
_SNAPSHOTS: Final = 5  # limit on tries, where files of the table vanish while they are read


@dataclass(slots=True)
class _Checked:
    """Tables and their copies, before anything is written."""

    snapshots: dict[str, TableSnapshot] = field(default_factory=dict)
    """Tables that can be read, at about the same time."""
    replaced: dict[str, str] = field(default_factory=dict)
    """Tables that were made anew since they were copied, and why that copy is not gone on with."""
    stale: list[str] = field(default_factory=list)
    """Copies that may have lines which were erased since, of tables that are gone or anew."""


@dataclass(frozen=True, slots=True)
class _Other:
    """Why a copy is not one of a table."""

    reason: str
    is_replaced: bool = False
    """Whether it is of a table that was there before this one."""


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
        # the last erasure that the tables have seen for sure
        self._erasure = 0

    def publish(self, stop: threading.Event) -> None:
        """Make the copies what the tables are now, and add what was done to `totals`.

        Nothing is written if the copies are of another directory, or of another past of this one.
        Raises `StorageError` after the other tables, and `StoppedError` once *stop* is set; then a
        later call goes on.
        """
        with stopping_on(stop):
            tables = self._tables()
            # before the tables are looked at: they have seen this erasure, or a later one
            self._erasure = last_finished(self._directory)
            checked = self._check(tables)
            for table in checked.stale:
                self.totals.add_erased({table: self._delete_copy(table)})
                checked.replaced.pop(table, None)

            errors = []
            for table in tables:
                try:
                    if (why := checked.replaced.get(table)) is not None:
                        raise StorageError(why)
                    self._publish_table(table, checked.snapshots.get(table))
                except StorageError as error:
                    errors.append(str(error))
                except BaseException:
                    self._forget(table)
                    raise
        if errors:
            raise StorageError("\n".join(errors))

    def plan(self, *, replace: bool) -> PublishTotals:
        """Return what `publish` would do now, after `drop_replaced` with *replace*."""
        totals, tables = PublishTotals(), self._tables()
        self._erasure = last_finished(self._directory)
        checked = self._check(tables, replace=replace)
        totals.add_erased({table: len(self._objects(table)) for table in checked.stale})
        for table in tables:
            path = self._path(table)
            try:
                snapshot, there = take_snapshot(path), self._objects(table)
                dropped = 0
                if table in checked.stale:
                    there = {}
                elif table in checked.replaced:
                    if not replace:
                        raise StorageError(checked.replaced[table])
                    dropped, there = len(there), {}
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
        """Delete the copies of tables that were made anew since; return their names.

        Raises `StorageError`, before any is deleted, as `publish` does.
        """
        dropped = list(self._check(self._tables(), replace=True).replaced)
        for table in dropped:
            self._delete_copy(table)
        return dropped

    def _check(self, tables: Sequence[str], *, replace: bool = False) -> _Checked:
        """Look at *tables* and their copies. Raises `StorageError` if the copies are of another
        directory, or of another past of this one: to write some would mix the two.

        With *replace* those of bronze may be of tables that were made before.
        """
        checked, wrong = _Checked(), []
        for table in tables:
            try:
                snapshot = take_snapshot(self._path(table))
            except (StorageError, FileNotFoundError):
                continue  # it is told in its turn, and holds up no other
            checked.snapshots[table] = snapshot
            other = self._find_other(table, snapshot)
            if other is None:
                continue
            why = (
                f"{self._bucket.address}/{table} {other.reason}: publish to another place, or "
                "delete what is there (--replace does where the table was made anew)"
            )
            # silver and gold are made from bronze: if that is another one, all of it is
            if other.is_replaced and (replace or not table.startswith(_BRONZE)):
                checked.replaced[table] = why
            else:
                wrong.append(why)
        if wrong:
            raise StorageError("\n".join(wrong))
        checked.stale = self._find_stale(tables, checked.snapshots)
        return checked

    def _find_stale(
        self, tables: Sequence[str], snapshots: Mapping[str, TableSnapshot]
    ) -> list[str]:
        """Return the copies that may have erased lines, and that no table goes on with."""
        events, copied = snapshots.get(_EVENTS), self._read_mark(_EVENTS)
        if not self._erasure or events is None or copied is None:
            return []
        if copied.table != events.table_id:  # another directory's, which counts its own erasures
            return []
        found = []
        for room in _DERIVED:
            for name in self._bucket.list_places(room):
                table = f"{room}/{name}"
                mark = self._read_mark(table)
                if mark is None or mark.erasure >= self._erasure:
                    continue
                snapshot = snapshots.get(table)
                is_anew = snapshot is not None and snapshot.table_id != mark.table
                if is_anew or table not in tables:
                    found.append(table)
        return found

    def _delete_copy(self, table: str) -> int:
        """Delete all objects of a copy; return how many there were."""
        objects = self._objects(table)
        # the log first: what is left then is no table, and lacks no rows. The mark last: by it a
        # later call knows whose the rest is
        order = sorted(objects, key=lambda name: (name == MARK, not name.startswith(LOG), name))
        self._forget(table)
        self._hints.pop(table, None)
        for name in order:
            check_stop()
            self._bucket.delete_object(f"{table}/{name}")
        return len(order)

    def _tables(self) -> list[str]:
        tables = list_tables(self._directory)
        if not tables:
            raise StorageError(
                f"{self._directory} has no tables: run `logdrive pipeline run --to DIR` first"
            )
        return tables

    def _publish_table(self, table: str, checked: TableSnapshot | None) -> None:
        """Copy a table as it was *checked*, or if that fails as it is then."""
        path, snapshot = self._path(table), checked
        for left in reversed(range(_SNAPSHOTS)):
            try:
                snapshot = snapshot or take_snapshot(path)
                steps = plan_steps(snapshot, self._objects(table))
                if steps is None:
                    snapshot = take_snapshot(path, write_checkpoint(path))
                    steps = plan_steps(snapshot, self._objects(table))
                assert steps is not None, "there is a checkpoint of this version now"
                self._copy(table, snapshot, steps)
                return
            except FileNotFoundError as error:  # a newer version may be without that file
                self._forget(table)
                snapshot = None
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

    def _find_other(self, table: str, snapshot: TableSnapshot) -> _Other | None:
        """Return why the copy is not one of *snapshot*, None if it is, or there is none."""
        there, mark = self._objects(table), self._read_mark(table)
        published = readable_version(there)
        if mark is None:
            return (
                _Other("has a table that was not published from here") if published >= 0 else None
            )
        if mark.table != snapshot.table_id:
            return _Other("is the copy of a table that was made before this one", is_replaced=True)
        if published > snapshot.version:
            return _Other(f"is at version {published}, and the table at {snapshot.version}")
        entry = snapshot.entries.get(published, "")
        if entry in there:
            copied = self._bucket.read_object(f"{table}/{entry}")
            if copied != _read(snapshot, entry):
                return _Other(f"has another version {published}, as after a restore")
        return None

    def _read_mark(self, table: str) -> CopyMark | None:
        """Return what the copy says of itself, None if there is no copy of ours."""
        if MARK not in self._objects(table):
            return None
        data = self._bucket.read_object(f"{table}/{MARK}")
        return None if data is None else decode_mark(data)

    def _copy(self, table: str, snapshot: TableSnapshot, steps: Steps) -> None:
        there, done = self._objects(table), TableTotals(table, snapshot.version)
        mark = self._read_mark(table)
        if mark is None:
            mark = CopyMark(snapshot.table_id)
            self._put(table, MARK, mark.encode())
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
            if mark.erasure < self._erasure:  # only now: nothing is left of those lines
                self._put(table, MARK, replace(mark, erasure=self._erasure).encode())
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
