"""Looks through new files of bronze for sources whose format is still to be decided.

Only columns of few distinct values are read, unless there is such a source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logdrive.pipeline.decode.schema import QUARANTINED, TIME
from logdrive.pipeline.formats.catalog import SAMPLE_LINES
from logdrive.pipeline.formats.format import LogLines
from logdrive.pipeline.silver.decisions import DecisionKey, Decisions, FormatDecision, NewSource
from logdrive.pipeline.silver.runs import (
    KEY_COLUMNS,
    LINE_COLUMNS,
    RowRun,
    key_runs,
    open_bronze_file,
)
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import name_read
from logdrive.pipeline.tasks import check_stop

_SAMPLE_ROWS = 1 << 13  # rows that are read at a time where samples are taken
_SAMPLE_COLUMNS = (*LINE_COLUMNS, "host", "path", "flag", "batch")


@dataclass(slots=True)
class _Sample:
    """The first rows of one source."""

    rows: int = 0
    parts: list[pa.Table] = field(default_factory=list)


class SourceScan:
    """Collects the sources of several files, and the first lines of those that are undecided."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        # in the order of their first rows
        self._decided: dict[DecisionKey, FormatDecision] = {}
        self._new: dict[DecisionKey, _Sample] = {}

    def scan_file(self, path: str) -> bool:
        """Look through the file of events at *path*; return whether foreign peers' rows are in it.

        Raises `StorageError` if it is gone or can't be read, and `StoppedError`.
        """
        check_stop()
        file, foreign = open_bronze_file(path), False
        for group in range(file.num_row_groups):
            with name_read(path):
                keys = _one_batch(file.read_row_group(group, columns=list(KEY_COLUMNS)))
            wanted: list[tuple[RowRun, _Sample]] = []
            for run in key_runs(keys):
                foreign = foreign or run.key[1] is not None
                sample = self._sample_of(run.key)
                if sample is not None and sample.rows < SAMPLE_LINES:
                    sample.rows += run.count
                    wanted.append((run, sample))
            if wanted:
                with name_read(path):
                    _take_samples(file, group, wanted)
        return foreign

    def _sample_of(self, key: DecisionKey) -> _Sample | None:
        """Return the sample of *key*, None if it is decided."""
        if key in self._decided:
            return None
        decision = self._decisions.find(key)
        if decision is not None:
            self._decided[key] = decision
            return None
        return self._new.setdefault(key, _Sample())

    def decide(
        self, batches: AppendTable
    ) -> tuple[dict[DecisionKey, FormatDecision], list[tuple[NewSource, FormatDecision]]]:
        """Return the decisions on all sources that were met, and those that are new and final.

        *batches* tells what agents say of their sources.
        """
        samples = {key: pa.concat_tables(sample.parts) for key, sample in self._new.items()}
        labels = _read_labels(batches, {rows["batch"][0].as_py() for rows in samples.values()})
        new = [
            _new_source(key, rows, labels.get(rows["batch"][0].as_py(), {}))
            for key, rows in samples.items()
        ]
        final = []
        for one, (decision, sure) in zip(new, self._decisions.decide(new), strict=True):
            self._decided[one.key] = decision
            if sure:
                final.append((one, decision))
        return self._decided, final


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.unify_dictionaries().columns]
    return pa.RecordBatch.from_arrays(columns, names=table.schema.names)


def _take_samples(file: pq.ParquetFile, group: int, wanted: list[tuple[RowRun, _Sample]]) -> None:
    last = max(run.first + min(run.count, SAMPLE_LINES) for run, _ in wanted)
    rows = _first_rows(file, group, last)
    for run, sample in wanted:
        # a copy, so that the whole row group is not kept
        few = rows.slice(run.first, min(run.count, SAMPLE_LINES))
        sample.parts.append(few.take(pa.array(range(few.num_rows))))


def _first_rows(file: pq.ParquetFile, group: int, count: int) -> pa.Table:
    """Return at least the first *count* rows of a row group: they may be few of very many."""
    parts: list[pa.RecordBatch] = []
    left = count
    columns = list(_SAMPLE_COLUMNS)
    for rows in file.iter_batches(_SAMPLE_ROWS, row_groups=[group], columns=columns):
        parts.append(rows)
        left -= rows.num_rows
        if left <= 0:
            break
    return pa.Table.from_batches(parts).unify_dictionaries()


def _new_source(key: DecisionKey, rows: pa.Table, labels: Mapping[str, Any]) -> NewSource:
    flagged = pc.is_in(rows["flag"].cast(pa.string()), pa.array(QUARANTINED))
    lines = rows.filter(pc.invert(flagged)).combine_chunks()
    columns = [
        lines[name].chunk(0) if lines.num_rows else _empty(name, lines.schema)
        for name in LINE_COLUMNS
    ]
    sample = LogLines(*columns)
    host, path = rows["host"][0].as_py(), rows["path"][0].as_py()
    return NewSource(key, host, path, sample, labels)


def _empty(name: str, schema: pa.Schema) -> pa.Array:
    return pa.array([], TIME if name == "received" else schema.field(name).type)


def _read_labels(batches: AppendTable, wanted: set[int]) -> dict[int, Mapping[str, Any]]:
    """Return the attributes of the batches *wanted*, by their ids."""
    if not wanted:
        return {}
    found = batches.read_rows(
        ["batch", "attributes"], pc.field("batch").isin(pa.array(sorted(wanted), pa.int64()))
    )
    labels: dict[int, Mapping[str, Any]] = {}
    for row in found.to_pylist():
        said = orjson.loads(row["attributes"] or "null")
        labels[row["batch"]] = said if isinstance(said, dict) else {}
    return labels
