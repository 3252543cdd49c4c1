"""What one file of `events` adds to an audit: its figures, which no later file changes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.engines.line_ends import (
    END_COLUMNS,
    ENDS,
    START_COLUMNS,
    Keys,
    count_continuing,
    unended_ends,
)
from logdrive.pipeline.audit.engines.row_sums import COLUMNS, RUNS, sum_runs
from logdrive.pipeline.audit.file_rows import read_pieces
from logdrive.pipeline.tables.failures import name_read

_MOST_RUNS: Final = 10_000
"""Runs of a file that are joined before more are read: rows of a batch may not lie together."""
_NO_KEYS: Final = np.empty(0, np.uint64)


@dataclass(slots=True)
class Continuing:
    """How many rows of a file continue lines, by source, given that lines lack their end at the
    places that *digest* stands for.
    """

    digest: bytes
    counts: dict[str, int]


@dataclass(slots=True)
class FileFigures:
    """The figures of one file."""

    path: str
    runs: pa.Table  # `RUNS`, one for each batch and source
    ends: pa.Table  # `ENDS`
    continuing: Continuing = field(default_factory=lambda: Continuing(digest_keys(_NO_KEYS), {}))


def read_figures(path: str) -> FileFigures:
    """Return the figures of the file at *path*. Raises `StorageError`."""
    with name_read(path):  # damaged labels are found where they are used
        return _read_figures(path)


def _read_figures(path: str) -> FileFigures:
    runs, count, most = [RUNS.empty_table()], 0, _MOST_RUNS
    for rows in read_pieces(path, COLUMNS):
        some = sum_runs(rows)
        runs.append(some)
        count += len(some)
        if count > most:
            runs = [_join_runs(runs)]
            count = len(runs[0])
            most = max(_MOST_RUNS, 2 * count)  # else they would be joined again at once
    joined, ends = _join_runs(runs), [ENDS.empty_table()]
    if pc.any(pc.greater(joined["unended"], 0)).as_py():
        ends += map(unended_ends, read_pieces(path, END_COLUMNS))
    return FileFigures(path, joined, pa.concat_tables(ends).combine_chunks())


def _join_runs(runs: Sequence[pa.Table]) -> pa.Table:
    """Return *runs* with one row for each batch and source."""
    how = {"low": "min", "high": "max"}
    names = RUNS.names[2:]
    joined = (
        pa.concat_tables(runs)
        .group_by(["batch", "source"], use_threads=False)
        .aggregate([(name, how.get(name, "sum")) for name in names])
    )
    columns = [joined[f"{name}_{how.get(name, 'sum')}"] for name in names]
    return pa.table([joined["batch"], joined["source"], *columns], schema=RUNS).combine_chunks()


def keys_within(files: Sequence[FileFigures]) -> list[Keys]:
    """Return for each of *files* the keys of the ends in all of them at which rows of it may begin,
    sorted: those within its span of the source.
    """
    ends = pa.concat_tables([ENDS.empty_table(), *(one.ends for one in files)])
    by_source = {
        source: (positions[order := np.argsort(positions)], keys[order])
        for source, positions, keys in _by_source(ends)
    }
    if not by_source:
        return [_NO_KEYS] * len(files)
    wanted = pa.array(list(by_source), pa.string())
    return [_keys_in_spans(one, wanted, by_source) for one in files]


def _by_source(ends: pa.Table) -> Iterable[tuple[str, np.ndarray, Keys]]:
    for source in ends["source"].unique().to_pylist():
        if source is not None:  # such rows have no position
            some = ends.filter(pc.equal(ends["source"], source))
            yield source, some["position"].to_numpy(), some["key"].to_numpy()


def _keys_in_spans(
    file: FileFigures, wanted: pa.Array, by_source: dict[str, tuple[np.ndarray, Keys]]
) -> Keys:
    runs = file.runs.filter(pc.is_in(file.runs["source"], wanted))
    spans: dict[str, tuple[int, int]] = {}
    columns = (runs[name].to_pylist() for name in ("source", "low", "high"))
    for source, low, high in zip(*columns, strict=True):
        known = spans.get(source, (low, high))
        spans[source] = min(known[0], low), max(known[1], high)
    found = [_NO_KEYS]
    for source, (low, high) in spans.items():
        positions, keys = by_source[source]
        found.append(
            keys[np.searchsorted(positions, low) : np.searchsorted(positions, high, "right")]
        )
    return np.unique(np.concatenate(found))


def digest_keys(keys: Keys) -> bytes:
    """Return a digest of *keys*, which are sorted."""
    return blake2b(keys.tobytes(), digest_size=16).digest()


def read_continuing(path: str, keys: Keys) -> Continuing:
    """Count the rows of the file at *path* that begin at one of *keys*. Raises `StorageError`."""
    counts = Counter[str]()
    if len(keys):
        for rows in read_pieces(path, START_COLUMNS):
            counts.update(count_continuing(rows, keys))
    return Continuing(digest_keys(keys), dict(counts))
