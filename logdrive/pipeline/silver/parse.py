"""What a task does for silver: reads files of bronze, parses their lines, writes files of rows.

Rows go by format, as columns; nothing here touches a line by itself. It costs what the formats
cost, plus about a fifth for reading and as much for writing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.decode.columns import dictionary_column
from logdrive.pipeline.decode.schema import LABEL, QUARANTINED
from logdrive.pipeline.formats.format import LogFormat, LogLines
from logdrive.pipeline.formats.traces import WithTraces
from logdrive.pipeline.formats.variant import encode_variants
from logdrive.pipeline.silver.decisions import CONFIG, DecisionKey, FormatDecision
from logdrive.pipeline.silver.outputs import SilverFiles
from logdrive.pipeline.silver.read_batches import read_batches
from logdrive.pipeline.silver.runs import LINE_COLUMNS, BronzeFile, RowRun, key_runs
from logdrive.pipeline.silver.schema import (
    COMMON,
    DUPLICATES,
    QUARANTINE,
    REST,
    rows_schema,
)
from logdrive.pipeline.tables.files import AddedFile
from logdrive.pipeline.tasks import check_stop

_HELD_ROWS = 512  # limit on rows that are parsed with those behind them, being of one trace
_LOOKED_AT = 64  # rows behind them in which such a trace may go on
_COLUMNS = (
    "batch",
    "ordinal",
    "source",
    "start",
    "end",
    "host",
    "path",
    "message",
    "original",
    "form",
    "flag",
    "fields",
    "time",
    "received",
)
_CONFIGURED = "configured"  # a column: whether the service is the configuration's
_SENT_AGAIN = "sent again"
_QUARANTINED, _DUPLICATE = -1, -2  # instead of the number of a group

FormatReason = tuple[str | None, str]
"""A format, and why it can't read a line; without one, the flag of a row that bronze could not
decode.
"""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SilverTask:
    """Files of bronze that one task makes into rows of silver."""

    directory: str  # of the silver tables
    files: tuple[BronzeFile, ...]
    decisions: Mapping[DecisionKey, FormatDecision]  # on all that the files have
    compression: str
    label: str  # in the names of the files that it writes
    variants: frozenset[str]  # tables whose column `rest` is VARIANT


@dataclass(frozen=True, slots=True)
class ParsedFiles:
    """What one task has made."""

    tables: Mapping[str, Sequence[AddedFile]]  # the new files by table
    reasons: Counter[FormatReason]  # rows in quarantine


def parse_files(task: SilverTask) -> ParsedFiles:
    """Write the rows of the files of *task*. Runs in a task.

    Raises `StorageError` if a file is gone, and `StoppedError`; then it leaves no file.
    """
    with SilverFiles(task.directory, task.compression, task.label) as files:
        parser = _Parser(task.decisions, files, task.variants)
        for file in task.files:
            first = 0
            for rows in read_batches(file.path, _COLUMNS, parser.count_open):
                check_stop()
                within = file.duplicates - first
                parser.add(rows, within[(within >= 0) & (within < rows.num_rows)])
                first += rows.num_rows
    return ParsedFiles(files.added(), parser.reasons)


@dataclass(frozen=True, slots=True)
class _FormatGroup:
    """Sources whose lines are parsed together: the same format with the same options."""

    name: str  # of the format
    format: LogFormat | None  # None: text
    table: str


class _Parser:
    """Parses batches of rows into *files*."""

    def __init__(
        self,
        decisions: Mapping[DecisionKey, FormatDecision],
        files: SilverFiles,
        variants: frozenset[str],
    ) -> None:
        # rows that were quarantined
        self.reasons = Counter[FormatReason]()
        self._files = files
        self._variants = variants
        self._groups: list[_FormatGroup] = []
        numbers: dict[str, int] = {}  # what tells one group from another -> its number
        # source -> number of its group, and what was decided
        self._of_key: dict[DecisionKey, tuple[int, FormatDecision]] = {}
        for key, decision in decisions.items():
            told = decision.kind
            if told not in numbers:
                numbers[told] = len(self._groups)
                self._groups.append(_FormatGroup(decision.format, decision.make(), decision.table))
            self._of_key[key] = (numbers[told], decision)

    def count_open(self, rows: pa.RecordBatch, following: pa.RecordBatch) -> int:
        """Return how many of the last *rows* are of a trace that goes on in those *following*."""
        last = rows.slice(max(0, rows.num_rows - _HELD_ROWS))
        ahead = following.slice(0, _LOOKED_AT)
        *_, run = key_runs(last)
        next_run = next(key_runs(ahead))
        parsing = self._groups[self._of_key[run.key][0]].format
        if run.key != next_run.key or not isinstance(parsing, WithTraces):
            return 0
        return parsing.count_open(
            _lines_of(last.slice(run.first)), _lines_of(ahead.slice(0, next_run.count))
        )

    def add(self, rows: pa.RecordBatch, duplicates: npt.NDArray[np.int64]) -> None:
        """Parse *rows*; those numbered *duplicates* are only noted."""
        runs = list(key_runs(rows))
        counts = np.array([run.count for run in runs], np.int64)
        found = [self._of_key[run.key] for run in runs]
        services = [decision.service for _, decision in found]
        configured = np.array([decision.service_by == CONFIG for _, decision in found])
        rows = rows.append_column("service", _services(services, counts))
        rows = rows.append_column(_CONFIGURED, pa.array(np.repeat(configured, counts)))

        group = np.repeat(np.array([number for number, _ in found], np.int64), counts)
        flagged = pc.is_in(rows.column("flag").cast(pa.string()), pa.array(QUARANTINED))
        group[flagged.to_numpy(zero_copy_only=False)] = _QUARANTINED
        group[duplicates] = _DUPLICATE

        for number in np.unique(group).tolist():
            mine = rows
            if (group != number).any() or _is_interleaved(runs):
                mine = rows.take(pa.array(_rows_by_source(rows, group == number)))
            if number == _QUARANTINED:
                self._quarantine(mine, None, mine.column("flag"))
            elif number == _DUPLICATE:
                reason = dictionary_column(np.zeros(mine.num_rows, np.int32), [_SENT_AGAIN])
                self._files.add_rows(DUPLICATES, _silver_rows(mine, None, {"reason": reason}))
            else:
                self._parse(mine, self._groups[number])

    def _parse(self, rows: pa.RecordBatch, group: _FormatGroup) -> None:
        if group.format is None:
            own = {"message": rows.column("message"), REST: rows.column("fields")}
            self._add_rows(group.table, rows, None, own)
            return
        parsed = group.format.parse(_lines_of(rows))
        columns, time = parsed.columns, parsed.time
        if parsed.reasons.null_count < rows.num_rows:
            bad = pc.is_valid(parsed.reasons)
            self._quarantine(rows.filter(bad), group.name, parsed.reasons.filter(bad))
            good = pc.invert(bad)
            rows, columns, time = rows.filter(good), columns.filter(good), time.filter(good)
        if rows.num_rows:
            own = dict(zip(columns.schema.names, columns.columns, strict=True))
            rows = _with_services(rows, own.get("service_name"))
            self._add_rows(group.table, rows, time, own)

    def _add_rows(
        self, table: str, rows: pa.RecordBatch, time: pa.Array | None, own: dict[str, pa.Array]
    ) -> None:
        """Add *rows* to *table*, with the columns *own* of their format."""
        if table in self._variants and REST in own:
            own[REST] = encode_variants(own[REST])
        self._files.add_rows(table, _silver_rows(rows, time, own))

    def _quarantine(self, rows: pa.RecordBatch, name: str | None, reasons: pa.Array) -> None:
        for one in reasons.value_counts().to_pylist():
            self.reasons[name, one["values"]] += one["counts"]
        own = {
            "format": dictionary_column(np.zeros(rows.num_rows, np.int32), [name]),
            "reason": reasons if reasons.type.equals(LABEL) else reasons.dictionary_encode(),
            "message": rows.column("message"),
            "original": rows.column("original"),
        }
        self._files.add_rows(QUARANTINE, _silver_rows(rows, None, own))


def _lines_of(rows: pa.RecordBatch) -> LogLines:
    return LogLines(*(rows.column(name) for name in LINE_COLUMNS))


def _services(services: Sequence[str | None], counts: npt.NDArray[np.int64]) -> pa.DictionaryArray:
    names = list(dict.fromkeys(services))
    codes = np.array([names.index(service) for service in services], np.int32)
    return dictionary_column(np.repeat(codes, counts), names)


def _with_services(rows: pa.RecordBatch, said: pa.Array | None) -> pa.RecordBatch:
    """Return *rows* with the services that the lines *said*, where none is configured."""
    if said is None or said.null_count == len(said):
        return rows
    own = pc.if_else(rows.column(_CONFIGURED), pa.scalar(None, pa.string()), said)
    services = pc.coalesce(own, rows.column("service").cast(pa.string())).dictionary_encode()
    return rows.set_column(rows.schema.get_field_index("service"), "service", services)


def _is_interleaved(runs: Sequence[RowRun]) -> bool:
    """Return whether the rows of one source don't all stand next to each other."""
    heads = [run.key for n, run in enumerate(runs) if not n or run.key != runs[n - 1].key]
    return len(set(heads)) < len(heads)


def _rows_by_source(rows: pa.RecordBatch, chosen: Mask) -> npt.NDArray[np.int64]:
    """Return the numbers of the *chosen* rows: those of a source next to each other, in order."""
    numbers = np.flatnonzero(chosen)
    order = np.zeros(len(numbers), np.int64)
    for name in ("source", "path"):
        codes = rows.column(name).indices.fill_null(-1).to_numpy(zero_copy_only=False)
        order = order * (int(codes.max(initial=0)) + 2) + codes[numbers] + 1
    return numbers[np.argsort(order, kind="stable")]


def _silver_rows(
    rows: pa.RecordBatch,
    time: pa.Array | None,
    own: Mapping[str, pa.Array],
) -> pa.Table:
    """Return rows of a silver table: the common columns of *rows*, and the columns *own*."""
    values = {name: rows.column(name) for name in rows.schema.names}
    if time is not None:
        values["time"] = pc.coalesce(time, rows.column("time"))
    names = [field.name for field in COMMON]
    arrays = [values[name] for name in names] + list(own.values())
    fields = [pa.field(name, value.type) for name, value in own.items()]
    return pa.Table.from_arrays(arrays, schema=rows_schema(fields))
