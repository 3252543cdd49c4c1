"""DuckDB, Polars and delta-rs see the same rows in the tables at any moment."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from logdrive.host import faults
from logdrive.pipeline.bronze.tables import open_tables
from tests.logdrive.pipeline.bronze.test_days import over_midnight
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines

STORED = Path(__file__).parents[3] / "vectors/stored/before_days"
COLUMNS = ["source", "ordinal", "start", "end", "message", "eol", "form", "received"]


def with_duckdb(path: str, columns: list[str]) -> Any:
    import duckdb

    table = DeltaTable(path).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("rows_there", table)
    names = ", ".join(f'"{name}"' for name in columns)
    return connection.sql(f"select {names} from rows_there").fetchall()


def with_duckdb_alone(path: str, columns: list[str]) -> Any:
    """DuckDB reads the files itself; their places say the day."""
    import duckdb

    (table,) = [one for one in open_tables(str(Path(path).parents[1])) if one.path == path]
    names = ", ".join(f'"{name}"' for name in columns)
    files = duckdb.connect().read_parquet(table.files, hive_partitioning="day" in columns)
    return files.select(names).fetchall()


def with_polars(path: str, columns: list[str]) -> Any:
    import polars

    return polars.scan_delta(path).select(columns).collect().rows()


def with_deltalake(path: str, columns: list[str]) -> Any:
    rows = DeltaTable(path).to_pyarrow_table(columns=columns)
    return list(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def with_ours(path: str, columns: list[str]) -> Any:
    (table,) = [one for one in open_tables(str(Path(path).parents[1])) if one.path == path]
    rows = table.read_rows(columns)
    return list(zip(*(rows[name].to_pylist() for name in columns), strict=True))


READERS: list[Callable[[str, list[str]], Any]] = [
    with_duckdb,
    with_duckdb_alone,
    with_polars,
    with_deltalake,
]


def stopped(monkeypatch: pytest.MonkeyPatch, directory: Path, segment: Segment, point: str) -> None:
    """Fill the tables, in a process that ends at *point*."""

    def crash(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(faults, "on_reach", crash)
        with pytest.raises(KeyboardInterrupt):
            catch_up(directory, segment)


@pytest.mark.parametrize("earlier", [False, True], ids=["by day", "of an earlier version"])
@pytest.mark.parametrize("read", READERS)
def test_each_reader_sees_the_same_rows_at_any_moment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[str, list[str]], Any],
    earlier: bool,
) -> None:
    segment, columns = over_midnight(), [*COLUMNS, "day"]
    if earlier:
        shutil.copytree(STORED / "bronze", tmp_path / "bronze")
        columns = COLUMNS
        segment = Segment(data=bytearray((STORED / "segment.bin").read_bytes()))
    events = str(tmp_path / "bronze/events")
    catch_up(tmp_path, segment)
    assert same_rows(events, columns, read) == (50 if earlier else 25)

    segment.clock += 86_400_000
    send(segment, "c", lines("c", 0, 7))
    stopped(monkeypatch, tmp_path, segment, "pipeline.commit.before_events")
    assert same_rows(events, columns, read) == (50 if earlier else 25)
    stopped(monkeypatch, tmp_path, segment, "pipeline.commit.between")
    assert same_rows(events, columns, read) == (57 if earlier else 32)
    catch_up(tmp_path, segment)
    assert same_rows(events, columns, read) == (57 if earlier else 32)


def same_rows(path: str, columns: list[str], read: Callable[[str, list[str]], Any]) -> int:
    """Return how many rows *read* sees, once they are those that the pipeline's own reader sees."""
    ours = sorted(map(plain, with_ours(path, columns)))
    assert sorted(map(plain, read(path, columns))) == ours
    return len(ours)


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *row* with its times in UTC, as readers name zones differently."""
    return tuple(value.timestamp() if hasattr(value, "timestamp") else str(value) for value in row)
