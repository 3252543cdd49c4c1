"""Files a day: each row is in the file of the day on which the receiver had it."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.tables.day_files import DayFiles, write_day_files
from logdrive.pipeline.tables.files import AddedFile

DAY = 86_400_000_000
SCHEMA = pa.schema([pa.field("n", pa.int64()), pa.field("received", TIME)])


def rows(times: Sequence[int | None], first: int = 0) -> pa.Table:
    numbers = range(first, first + len(times))
    return pa.table({"n": numbers, "received": pa.array(times, TIME)}, SCHEMA)


def numbers(directory: Path, file: AddedFile) -> list[int]:
    table = pq.ParquetFile(directory / file.name).read()
    assert table.schema.names == SCHEMA.names
    assert (table.num_rows, (directory / file.name).stat().st_size) == (file.rows, file.size)
    return list(table["n"].to_pylist())


def by_day(directory: Path, files: Sequence[AddedFile]) -> dict[str | None, list[int]]:
    return {file.partition["day"]: numbers(directory, file) for file in files}


def test_rows_around_midnight_go_to_two_days_in_their_order(tmp_path: Path) -> None:
    with DayFiles(str(tmp_path), SCHEMA) as files:
        files.write_row_group(rows([DAY - 1, DAY, DAY - 1, DAY + 1]))
        files.write_row_group(rows([DAY - 2], 4))
        files.write_row_group(rows([], 5))
    assert by_day(tmp_path, files.added_files) == {"1970-01-01": [0, 2, 4], "1970-01-02": [1, 3]}
    assert {Path(file.name).parent.name for file in files.added_files} == {
        "day=1970-01-01",
        "day=1970-01-02",
    }


@pytest.mark.parametrize(
    ("time", "day"),
    [
        (1_795_410_000_000_000, "2026-11-23"),
        (-1, "1969-12-31"),
        (-(1 << 63), "0001-01-01"),
        ((1 << 63) - 1, "9999-12-31"),
        (None, None),
    ],
)
def test_every_time_has_a_day_that_a_calendar_has(
    tmp_path: Path, time: int | None, day: str | None
) -> None:
    alone = write_day_files(str(tmp_path), rows([time]))
    assert by_day(tmp_path, alone) == {day: [0]}
    among = write_day_files(str(tmp_path), rows([DAY, time, DAY]))
    assert by_day(tmp_path, among) == {"1970-01-02": [0, 2], day: [1]}


def test_more_days_than_may_be_open_lose_no_row(tmp_path: Path) -> None:
    with DayFiles(str(tmp_path), SCHEMA) as files:
        files.write_row_group(rows([n * DAY for n in range(20)]))
        files.write_row_group(rows([n * DAY for n in range(20)], 20))
    got = sorted(n for file in files.added_files for n in numbers(tmp_path, file))
    assert got == list(range(40))
    assert all(
        set(numbers(tmp_path, file)) <= {day, day + 20}
        for file in files.added_files
        for day in [min(numbers(tmp_path, file)) % 20]
    )


def test_no_file_stays_of_a_task_that_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_and_fail(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def write_and_fail(directory: Path) -> None:
    with DayFiles(str(directory), SCHEMA) as files:
        files.write_row_group(rows([n * DAY for n in range(20)]))
        raise KeyError


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert write_day_files(str(tmp_path), rows([])) == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
