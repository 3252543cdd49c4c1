"""An Iceberg table shows just the rows of the Delta table, whatever becomes of it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.schema import BATCHES, EVENTS
from logdrive.pipeline.tables import join_files, upkeep
from logdrive.pipeline.tables.day_files import DAY, write_day_files
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.iceberg import open_catalog, publish_table
from logdrive.pipeline.tables.open_table import create_table
from logdrive.pipeline.tables.upkeep import TableUpkeep
from tests.logdrive.pipeline.bronze.test_days import over_midnight
from tests.logdrive.pipeline.filling import catch_up
from tests.logdrive.pipeline.tables.inline import InlineExecutor
from tests.logdrive.pipeline.tables.test_day_files import SCHEMA, rows

NAME = ("bronze", "events")
DAYS = 86_400_000_000


@pytest.fixture
def table(tmp_path: Path) -> AppendTable:
    return create_table(str(tmp_path / "a table"), SCHEMA.append(DAY), [DAY.name])


def add(table: AppendTable, n: int, received: int = 0) -> None:
    file = write_day_files(table.path, rows([received], n))
    table.add_files(file, {}, marks={"n": n})


def shown(tmp_path: Path, table: AppendTable) -> list[int]:
    """Publish *table*; return the numbers that a reader of Iceberg sees."""
    catalog = open_catalog(str(tmp_path / "iceberg"))
    publish_table(catalog, NAME, table)
    assert not publish_table(catalog, NAME, table)
    return sorted(read(tmp_path)["n"].to_pylist())


def read(tmp_path: Path, **options: Any) -> pa.Table:
    return open_catalog(str(tmp_path / "iceberg")).load_table(NAME).scan(**options).to_arrow()


def test_a_snapshot_has_the_rows_of_the_version_that_it_names(
    tmp_path: Path, table: AppendTable
) -> None:
    assert shown(tmp_path, table) == []
    for n in range(4):
        add(table, n, n * DAYS)
        if n:
            assert shown(tmp_path, table) == list(range(n + 1))
    there = open_catalog(str(tmp_path / "iceberg")).load_table(NAME)
    summaries = [one.summary for one in there.snapshots()]
    assert [one["logdrive.version"] for one in summaries if one] == ["0", "2", "3", "4"]
    second = there.scan(row_filter="received >= '1970-01-02T00:00:00+00:00'")
    assert len(list(second.plan_files())) == 3


def test_files_that_were_joined_are_shown_once(
    tmp_path: Path, table: AppendTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (join_files, upkeep):
        monkeypatch.setattr(module, "JOIN_FILES", 4)
    work = TableUpkeep(table, InlineExecutor())
    for n in range(9):
        add(table, n)
        work.after_commit()
        assert shown(tmp_path, table) == list(range(n + 1))
    work.finish()
    assert shown(tmp_path, table) == list(range(9))
    there = open_catalog(str(tmp_path / "iceberg")).load_table(NAME)
    assert len(list(there.scan().plan_files())) == len(table.files) < 9


def test_a_table_that_was_made_anew_is_shown_as_it_is_now(
    tmp_path: Path, table: AppendTable
) -> None:
    add(table, 1)
    assert shown(tmp_path, table) == [1]
    Path(table.path).rename(tmp_path / "old")
    other = create_table(table.path, SCHEMA.append(DAY), [DAY.name])
    add(other, 7)
    assert other.version == table.version
    assert shown(tmp_path, other) == [7]


def test_a_column_that_was_added_is_shown(tmp_path: Path, table: AppendTable) -> None:
    add(table, 1)
    assert shown(tmp_path, table) == [1]
    longer = pa.schema([*SCHEMA, pa.field("team", pa.string()), DAY])
    table = create_table(table.path, longer, [DAY.name])
    assert shown(tmp_path, table) == [1]
    more = rows([0], 2).append_column("team", pa.array(["blue"]))
    table.add_files(write_day_files(table.path, more), {})
    assert shown(tmp_path, table) == [1, 2]
    assert sorted(read(tmp_path)["team"].to_pylist(), key=str) == [None, "blue"]


def test_both_bronze_tables_can_be_shown(tmp_path: Path) -> None:
    catch_up(tmp_path, over_midnight())
    catalog = open_catalog(str(tmp_path / "iceberg"))
    for schema, name, table in zip(
        (EVENTS, BATCHES), ("events", "batches"), open_tables(str(tmp_path)), strict=True
    ):
        publish_table(catalog, ("bronze", name), table)
        rows = catalog.load_table(("bronze", name)).scan().to_arrow()
        ours = table.read_rows(schema.names)
        assert rows.column_names == schema.names
        assert sorted(map(str, rows.cast(ours.schema).to_pylist())) == sorted(
            map(str, ours.to_pylist())
        )
