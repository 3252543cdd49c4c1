"""Fills the silver tables from bronze: each row of bronze once, whatever crashes.

A step takes the files that some versions of `bronze.events` added. Tasks write files of rows, then
the driver commits: first to `sources`, with the formats that were decided, and the names of all new
files in its metadata; then the files to each table. So a crash between these commits is repaired by
making the others, and nothing is parsed a second time. Each commit sets the mark `step`, by which a
table shows whether it has its files.
"""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from uuid import uuid4

import pyarrow as pa

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.pipeline.bronze.tables import open_tables, table_paths
from logdrive.pipeline.silver.backlog import BronzeChunk, count_waiting, next_chunk
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.decisions import (
    DecisionKey,
    Decisions,
    FormatDecision,
    NewSource,
    decision_rows,
)
from logdrive.pipeline.silver.failed_steps import FailedSteps
from logdrive.pipeline.silver.format_tables import FormatTables, require_variant_writer
from logdrive.pipeline.silver.parse import FormatReason, SilverTask, parse_files
from logdrive.pipeline.silver.resends import Resends
from logdrive.pipeline.silver.runs import NO_ROWS, BronzeFile, even_parts
from logdrive.pipeline.silver.scan import SourceScan
from logdrive.pipeline.silver.schema import (
    DUPLICATES,
    QUARANTINE,
    SENT,
    SOURCES,
    SOURCES_SCHEMA,
    silver_directory,
)
from logdrive.pipeline.silver.sent_lines import SentLines
from logdrive.pipeline.silver.step_note import STEP, StepNote, read_step_note
from logdrive.pipeline.tables.day_files import DAY, write_day_files
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.delta_log import entry_path
from logdrive.pipeline.tables.files import (
    DEFAULT_COMPRESSION,
    AddedFile,
    labelled_schema,
    write_file,
)
from logdrive.pipeline.tables.lock import make_and_lock_tables
from logdrive.pipeline.tables.open_table import create_table, is_table, open_table_as_it_is
from logdrive.pipeline.tables.upkeep import TableUpkeep
from logdrive.pipeline.tasks import InProcess, Tasks

REBUILD = "make it anew with `logdrive pipeline rebuild DIR --table silver`"

_SMALL = 4 << 20  # bytes of bronze's files that are parsed in this process


@dataclass(frozen=True, slots=True)
class StepCounts:
    """What one step added, in rows."""

    version: int  # of `bronze.events`, up to which silver now is
    tables: Mapping[str, int]  # all rows, by table
    seconds: float  # that it took
    rows: int
    quarantined: int
    duplicates: int
    unsure: int  # lines of foreign peers that may be there twice
    bytes: int  # of the files of bronze
    reasons: Mapping[FormatReason, int]  # those that were quarantined

    @property
    def bronze(self) -> int:
        """Rows of bronze that the step has read."""
        return self.rows + self.quarantined + self.duplicates


@dataclass(frozen=True, slots=True)
class _Written:
    """A step whose files are on the disk, and in no table yet."""

    made: Mapping[str, Sequence[AddedFile]]  # by table
    decided: Sequence[tuple[NewSource, FormatDecision]]
    unsure: int  # lines of foreign peers that may be there twice
    reasons: Mapping[FormatReason, int]  # rows in quarantine


class Silver:
    """The silver tables of one directory, locked for writing inside the context."""

    def __init__(
        self,
        directory: str,
        config: SilverConfig,
        tasks: Tasks,
        *,
        clock: Clock,
        disk: Disk,
        compression: str = DEFAULT_COMPRESSION,
    ) -> None:
        """Raises `PackagesMissingError` if *config* wants what nothing installed can write."""
        if config.wants_variants:
            require_variant_writer()
        self._directory = directory
        self._place = silver_directory(directory)
        self._config = config
        self._tasks = tasks
        self._clock = clock
        self._disk = disk
        self._compression = compression
        # holds the lock on the directory inside the context
        self._held = ExitStack()
        self._tables: dict[str, AppendTable] = {}
        # by path of the table; does its work in a thread inside the context
        self._upkeeps: dict[str, TableUpkeep] = {}
        self._executor: Executor
        # True once bronze was looked at: then a look for its next version does
        self._looked = False
        # True if memory agrees with the disk: False while a step runs, and after it failed
        self._sound = False
        self._failed = FailedSteps(self._place)
        self.waiting_versions = 0
        """Versions of `bronze.events` that are not in silver yet, as it was seen last."""

    def __enter__(self) -> Self:
        """Take the lock, open the tables, and repair them.

        Raises `StorageError` if there is no bronze, or another process fills silver.
        """
        open_tables(self._directory)
        self._held.enter_context(make_and_lock_tables(self._place, self._disk))
        thread = ThreadPoolExecutor(1, thread_name_prefix="silver-upkeep")
        self._executor = self._held.enter_context(thread)
        try:
            self.reload_tables()
        except BaseException:  # `__exit__` is not called then
            self._held.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._held:
            self._failed.remove_files()
            for upkeep in self._upkeeps.values():
                if self._sound and error is None:
                    upkeep.finish()
                else:
                    upkeep.abandon()

    def reload_tables(self) -> None:
        """Read all state from the disk again; needed after a step that failed.

        Raises `StorageError`.
        """
        for upkeep in self._upkeeps.values():
            upkeep.abandon()
        self._failed.remove_files()
        self._upkeeps = {}
        self._tables = {}
        self._looked = False
        self._sources = create_table(os.path.join(self._place, SOURCES), SOURCES_SCHEMA)
        note = read_step_note(self._sources)
        self._step, self.position, self._bronze_id = note.step, note.position, note.bronze_id
        self._commit_files(note)
        names = [name for name in SOURCES_SCHEMA.names if name != "decided"]
        self._sent = SentLines(self._sent_files())
        self._resends = Resends(self._sent)
        self._decisions = Decisions(self._config, self._sources.read_rows(names).to_pylist())
        self._format_tables = FormatTables(self._place, self._decisions)
        self._format_tables.check_config(self._config)
        self._sound = True

    @property
    def _next_entry(self) -> str:
        """Where the log of bronze has the version behind the one that silver has come to."""
        return entry_path(table_paths(self._directory)[0], self.position.done + 1)

    @property
    def _sent_path(self) -> str:
        return os.path.join(self._place, SENT)

    def _sent_files(self) -> list[str]:
        return open_table_as_it_is(self._sent_path).files if is_table(self._sent_path) else []

    def is_behind(self) -> bool:
        """Return whether bronze has rows that are not in silver yet."""
        if self.position.filling is not None:
            return True
        events, _ = open_tables(self._directory)
        return any(added for _, added in events.added_since(self.position.done))

    def count_waiting_bytes(self) -> int | None:
        """Return how many bytes of bronze's files are still to be read; None if it takes long.

        Raises `StorageError` and `StoppedError`.
        """
        return count_waiting(self._open_bronze()[0], self.position)

    def _open_bronze(self) -> tuple[AppendTable, AppendTable]:
        events, batches = open_tables(self._directory)
        if self._bronze_id not in (None, events.table_id):
            raise StorageError(f"{self._place} was made from another bronze: {REBUILD}")
        return events, batches

    def next_step(self) -> StepCounts | None:
        """Process what bronze has added, as much as fits one step; None if nothing is new.

        After any failure call `reload_tables` before the next one. Raises `StorageError`,
        `TransientError` for failures of Spark, and `StoppedError`; then nothing is committed.
        """
        if not self._sound:
            raise StorageError("a step failed and the tables were not read again")
        if self._looked and not os.path.exists(self._next_entry):
            return None
        began = time.monotonic()
        events, batches = self._open_bronze()
        self.waiting_versions = events.version - self.position.done
        chunk = next_chunk(events, self.position, self._config.max_bytes_per_step)
        self._looked = self.position.filling is None
        if chunk is None:
            return None

        self._sound = False
        label = str(uuid4())
        try:
            written = self._write_files(events, batches, chunk, label)
            decided = decision_rows(written.decided, self._clock.now_ms())
            staged = write_file(self._sources.path, decided, label=label)
        except BaseException:
            self._failed.add(label)
            self._failed.remove_files()
            raise
        faults.reach("pipeline.silver.after_files")
        self._bronze_id = events.table_id
        self._failed.begin_commit(label, self._step + 1)
        self._commit(chunk, written.made, [staged] if staged else [])
        self._sound = True
        self.waiting_versions = events.version - self.position.done
        self._failed.end_commit()
        return _counts(chunk, written, time.monotonic() - began)

    def _write_files(
        self, events: AppendTable, batches: AppendTable, chunk: BronzeChunk, label: str
    ) -> _Written:
        """Write the files of the step *chunk*, with *label* in their names."""
        scan = SourceScan(self._decisions)
        sizes = {os.path.join(events.path, name): size for name, size in chunk.files}
        foreign = [path for path in sizes if scan.scan_file(path)]
        decisions, final = scan.decide(batches)
        paths = {one.key: one.path for one, _ in final}
        self._format_tables.check_decisions(
            (paths.get(key) or key[1] or f"the source {key[0]}", decision)
            for key, decision in decisions.items()
        )
        resends = self._resends.find(foreign)
        files = [
            BronzeFile(path, size, resends.duplicates.get(path, NO_ROWS))
            for path, size in sizes.items()
        ]
        made, reasons = self._parse(files, decisions, label)
        if sent := write_day_files(self._sent_path, resends.sent, self._compression, label):
            made[SENT] = sent
            self._sent.add_files(os.path.join(self._sent_path, file.name) for file in sent)
        return _Written(made, final, resends.unsure, reasons)

    def _parse(
        self,
        files: Sequence[BronzeFile],
        decisions: Mapping[DecisionKey, FormatDecision],
        label: str,
    ) -> tuple[dict[str, list[AddedFile]], Counter[FormatReason]]:
        """Return the new files of rows by table, and why which rows were quarantined."""
        small = sum(file.size for file in files) < _SMALL
        tasks: Tasks = InProcess() if small else self._tasks
        kinds = {decision.kind: decision for decision in decisions.values()}.values()
        variants = self._format_tables.variant_tables([one.table for one in kinds], self._config)
        items = [
            SilverTask(self._place, part, decisions, self._compression, label, variants)
            for part in even_parts(files, tasks.slots)
        ]
        made: dict[str, list[AddedFile]] = {}
        reasons = Counter[FormatReason]()
        for parsed in tasks.run(parse_files, items):
            reasons.update(parsed.reasons)
            for table, added in parsed.tables.items():
                made.setdefault(table, []).extend(added)
        return made, reasons

    def _commit(
        self,
        chunk: BronzeChunk,
        made: Mapping[str, Sequence[AddedFile]],
        staged: Sequence[AddedFile],
    ) -> None:
        """Commit the files *made* of rows, by table, and *staged*, those of decisions."""
        note = StepNote(self._step + 1, chunk.after, self._bronze_id, made)
        faults.reach("pipeline.silver.before_sources")
        self._sources.add_files(staged, {}, note.as_json(), note.marks)
        self._step, self.position = note.step, note.position
        faults.reach("pipeline.silver.after_sources")
        self._commit_files(note)
        faults.reach("pipeline.silver.after_tables")
        for table in (self._sources, *(self._tables[name] for name in made)):
            self._keep_up(table)

    def _commit_files(self, note: StepNote) -> None:
        """Commit the files of the step *note* to each table that does not have them."""
        for name, files in note.tables.items():
            table = self._open(name)
            had = None if table is None else table.mark(STEP)
            if had is not None and had > note.step:
                raise StorageError(
                    f"{os.path.join(self._place, name)} and {self._sources.path} do not belong "
                    f"together: one of them was restored from a backup; {REBUILD}"
                )
            if had != note.step:
                self._table_for(name, files).add_files(files, {}, None, note.marks)
                faults.reach("pipeline.silver.between_tables")

    def _open(self, name: str) -> AppendTable | None:
        """Return the table *name* as it is, None if there is none."""
        path = os.path.join(self._place, name)
        if name not in self._tables and is_table(path):
            self._tables[name] = open_table_as_it_is(path)
        return self._tables.get(name)

    def _table_for(self, name: str, files: Sequence[AddedFile]) -> AppendTable:
        """Return the table *name* with all columns of *files*, which are new.

        It is made, or gets the columns that it lacks. Others that it has are null in these rows.
        """
        path = os.path.join(self._place, name)
        schemas = [labelled_schema(os.path.join(path, file.name)) for file in files]
        wanted = pa.unify_schemas(schemas).append(DAY)
        table = self._open(name)
        types = {} if table is None else {field.name: field.type for field in table.schema}
        if any(types.get(field.name) != field.type for field in wanted):
            kept = (
                []
                if table is None
                else [one for one in table.schema if one.name not in wanted.names]
            )
            self._tables[name] = create_table(path, pa.schema([*wanted, *kept]), [DAY.name])
            if (upkeep := self._upkeeps.pop(path, None)) is not None:
                upkeep.abandon()  # it is of the columns before
        return self._tables[name]

    def _keep_up(self, table: AppendTable) -> None:
        """Go on with the upkeep of *table* after a commit."""
        if table.path not in self._upkeeps:
            self._upkeeps[table.path] = TableUpkeep(table, self._executor)
        if self._upkeeps[table.path].after_commit() and table.path == self._sent_path:
            self._sent.replace_files(self._sent_files())


def _counts(chunk: BronzeChunk, written: _Written, seconds: float) -> StepCounts:
    rows = {table: sum(file.rows for file in files) for table, files in written.made.items()}
    rows.pop(SENT, None)  # which are rows of other tables
    tables = rows.copy()
    quarantined, duplicates = rows.pop(QUARANTINE, 0), rows.pop(DUPLICATES, 0)
    return StepCounts(
        chunk.after.done,
        tables,
        seconds,
        sum(rows.values()),
        quarantined,
        duplicates,
        written.unsure,
        sum(size for _, size in chunk.files),
        written.reasons,
    )
