"""Answers an audit's questions by reading the files of `events` in this process."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.engine import SUMS, SourceNames
from logdrive.pipeline.audit.equal_rows import ROW_COLUMNS, SourceRows, measure_copy
from logdrive.pipeline.audit.file_rows import map_files, read_pieces
from logdrive.pipeline.audit.line_ends import (
    END_COLUMNS,
    ENDS,
    START_COLUMNS,
    Keys,
    count_continuing,
    unended_ends,
)
from logdrive.pipeline.audit.row_sums import COLUMNS, RUNS, sum_runs
from logdrive.pipeline.decode.schema import DAMAGED_PACK
from logdrive.pipeline.tables.delta import AppendTable

_RUNS_TOGETHER: Final = 10_000
"""Runs of a file that are too many to keep: rows of batches that do not lie together are summed."""

ProgressReport = Callable[[int, int], None]
"""Called with how many files were read, and how many there are."""


@dataclass(frozen=True, slots=True)
class FileFigures:
    """What one file adds to the audit."""

    path: str
    runs: pa.Table  # `RUNS`
    ends: pa.Table  # `ENDS`


class ArrowEngine:
    """Reads with pyarrow and numpy, by a thread a core, in bounded memory."""

    def __init__(
        self, events: AppendTable, on_progress: ProgressReport = lambda _, __: None
    ) -> None:
        self._paths = sorted(events.files)
        self._on_progress = on_progress
        self._files: list[FileFigures] = []

    def sum_rows(self) -> pa.Table:
        """Return `SUMS` over all rows."""
        for one in map_files(read_figures, self._paths):
            self._files.append(one)
            self._on_progress(len(self._files), len(self._paths))
        return pa.concat_tables(
            [SUMS.empty_table(), *(one.runs.select(SUMS.names) for one in self._files)]
        )

    def damage_reasons(self) -> Mapping[int, str]:
        """Return why packs can't be opened, by batch."""
        damaged = [one.path for one in self._files if pc.any(pc.greater(one.runs["damaged"], 0))]
        return {
            batch: reason
            for found in map_files(_read_reasons, damaged)
            for batch, reason in found.items()
        }

    def count_doubled(self, sources: Sequence[str]) -> int:
        """Return how many rows of *sources* share their start with another one of their source."""
        return sum(map(self._count_doubled, sources))

    def _count_doubled(self, source: str) -> int:
        """Takes 8 bytes of memory a row of *source*."""
        read = partial(_read_starts, source=source)
        starts = np.concatenate([np.empty(0, np.int64), *map_files(read, self._paths_of([source]))])
        return len(starts) - len(np.unique(starts))

    def count_continuing(self) -> Mapping[str, int]:
        """Return, by source, how many rows continue the line of another row."""
        ends = pa.concat_tables([one.ends for one in self._files])
        counted = Counter[str]()
        wanted = [(one.path, keys) for one in self._files if len(keys := _keys_within(one, ends))]
        for found in map_files(_count_continuing, wanted):
            counted.update(found)
        return counted

    def size_copies(self, pairs: Sequence[SourceNames]) -> Mapping[SourceNames, tuple[int, int]]:
        """Return how many rows and bytes the two sources of each pair begin with alike.

        Takes 24 bytes of memory a row of the two.
        """
        return {pair: measure_copy(*map(self._read_source, pair)) for pair in pairs}

    def _read_source(self, source: str) -> SourceRows:
        read = partial(_read_rows, source=source)
        return SourceRows.join(
            rows for file in map_files(read, self._paths_of([source])) for rows in file
        )

    def _paths_of(self, sources: Sequence[str]) -> list[str]:
        """Return the files that have rows of *sources*."""
        wanted = pa.array(sources, pa.string())
        return [
            one.path for one in self._files if pc.any(pc.is_in(one.runs["source"], wanted)).as_py()
        ]


def read_figures(path: str) -> FileFigures:
    """Return the figures of the file at *path*. Raises `StorageError`."""
    runs, count = [RUNS.empty_table()], 0
    for rows in read_pieces(path, COLUMNS):
        some = sum_runs(rows)
        runs, count = [*runs, some], count + len(some)
        if count > _RUNS_TOGETHER:
            runs = [_join_runs(runs)]
            count = len(runs[0]) // 2  # joining again pays only after as many more
    joined = _join_runs(runs)
    ends = [ENDS.empty_table()]
    if pc.any(pc.greater(joined["unended"], 0)).as_py():
        ends += map(unended_ends, read_pieces(path, END_COLUMNS))
    return FileFigures(path, joined, pa.concat_tables(ends))


def _join_runs(runs: Sequence[pa.Table]) -> pa.Table:
    """Return *runs* with one row for each batch and source."""
    least = {"low": "min", "high": "max"}
    names = RUNS.names[2:]
    joined = (
        pa.concat_tables(runs)
        .group_by(["batch", "source"], use_threads=False)
        .aggregate([(name, least.get(name, "sum")) for name in names])
    )
    columns = [joined[f"{name}_{least.get(name, 'sum')}"] for name in names]
    return pa.table([joined["batch"], joined["source"], *columns], schema=RUNS)


def _read_reasons(path: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for rows in read_pieces(path, ("batch", "flag", "fields")):
        damaged = rows.filter(pc.equal(rows["flag"].cast(pa.string()), DAMAGED_PACK))
        for batch, fields in zip(
            damaged["batch"].to_pylist(), damaged["fields"].to_pylist(), strict=True
        ):
            found[batch] = orjson.loads(fields)["error"]["message"]
    return found


def _read_starts(path: str, source: str) -> np.ndarray:
    starts = [np.empty(0, np.int64)]
    for rows in read_pieces(path, ("source", "start")):
        ours = pc.equal(rows["source"].cast(pa.string()), source)
        starts.append(rows["start"].filter(ours).drop_null().to_numpy())
    return np.concatenate(starts)


def _read_rows(path: str, source: str) -> list[SourceRows]:
    return [
        SourceRows.of(rows.filter(pc.equal(rows["source"].cast(pa.string()), source)))
        for rows in read_pieces(path, ROW_COLUMNS)
    ]


def _keys_within(file: FileFigures, ends: pa.Table) -> Keys:
    """Return the keys of those of *ends* at which rows of *file* may begin, sorted."""
    spans = (
        file.runs.select(["source", "low", "high"])
        .group_by("source", use_threads=False)
        .aggregate([("low", "min"), ("high", "max")])
    )
    near = ends.join(spans, "source", join_type="inner")
    within = pc.and_(
        pc.greater_equal(near["position"], near["low_min"]),
        pc.less_equal(near["position"], near["high_max"]),
    )
    return np.unique(near["key"].filter(within).to_numpy())


def _count_continuing(wanted: tuple[str, Keys]) -> Counter[str]:
    path, keys = wanted
    counted = Counter[str]()
    for rows in read_pieces(path, START_COLUMNS):
        counted.update(count_continuing(rows, keys))
    return counted
