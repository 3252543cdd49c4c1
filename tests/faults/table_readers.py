"""Readers of other programs look at the tables while the pipeline writes them, and was killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

Figures = tuple[int, ...]
"""Rows, the sums of their ordinals and ends, the bytes of their texts."""

_SUMS = ("ordinal", "end")


def with_deltalake(path: str, version: int) -> Figures:
    rows = DeltaTable(path, version=version).to_pyarrow_table(columns=[*_SUMS, "message"])
    texts = rows["message"].to_pylist()
    sums = [sum(rows[name].to_pylist()) for name in _SUMS]
    return rows.num_rows, *sums, sum(len(text.encode()) for text in texts)


def with_duckdb(path: str, version: int) -> Figures:
    table = DeltaTable(path, version=version).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("events", table)
        return _summed_by(connection, "events")


def with_duckdb_alone(path: str, version: int) -> Figures:
    """DuckDB reads the files of that version by itself, at once."""
    files = DeltaTable(path, version=version).file_uris()
    if not files:
        return 0, 0, 0, 0
    with duckdb.connect() as connection:
        connection.register("events", connection.read_parquet(files))
        return _summed_by(connection, "events")


def _summed_by(connection: Any, name: str) -> Figures:
    sums = 'sum(ordinal), sum("end"), sum(strlen(message))'
    (row,) = connection.sql(f"select count(*), {sums} from {name}").fetchall()
    return tuple(value or 0 for value in row)


def with_polars(path: str, version: int) -> Figures:
    sums = [
        *(polars.col(name).sum() for name in _SUMS),
        polars.col("message").str.len_bytes().sum(),
    ]
    (row,) = polars.scan_delta(path, version=version).select(polars.len(), *sums).collect().rows()
    return tuple(map(int, row))


READERS: tuple[Callable[[str, int], Figures], ...] = (
    with_deltalake,
    with_duckdb,
    with_duckdb_alone,
    with_polars,
)


class Watch:
    """Looks at `events` and `batches` below *directory*, again and again."""

    def __init__(self, directory: Path) -> None:
        self._events = str(directory / "bronze" / "events")
        self._batches = str(directory / "bronze" / "batches")
        # what the readers saw at each version
        self.seen: dict[int, Figures] = {}

    def look(self) -> None:
        """Let each reader read the version that is there now; demand that they see one thing.

        All rows of a batch are there, or none; and rows that were there stay.
        """
        try:
            known = DeltaTable(self._batches)  # before `events`, which is committed first
            version = int(DeltaTable(self._events).version())
        except TableNotFoundError:  # not made yet
            return
        figures = {read.__name__: read(self._events, version) for read in READERS}
        assert len(set(figures.values())) == 1, f"version {version}: {figures}"
        figure = figures["with_polars"]
        earlier = {at: one for at, one in self.seen.items() if at <= version}
        assert all(one[0] <= figure[0] for one in earlier.values()), (version, figure, earlier)
        assert self.seen.setdefault(version, figure) == figure
        self._demand_whole_batches(known, version)

    def _demand_whole_batches(self, known: DeltaTable, version: int) -> None:
        headers = known.to_pyarrow_table(columns=["batch", "rows"]).to_pydict()
        wanted = dict(zip(headers["batch"], headers["rows"], strict=True))
        events = DeltaTable(self._events, version=version).to_pyarrow_table(columns=["batch"])
        there = {one["values"]: one["counts"] for one in events["batch"].value_counts().to_pylist()}
        assert {batch: there.get(batch, 0) for batch in wanted} == wanted
