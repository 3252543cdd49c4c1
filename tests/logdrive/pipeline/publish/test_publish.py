"""Tables whose copies are in S3-compatible storage: whole at any moment, whatever ends a
publication.
"""

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from logdrive.errors import StorageError
from logdrive.pipeline.publish.bucket import Bucket, open_bucket
from logdrive.pipeline.publish.publish import Publisher
from logdrive.pipeline.publish.totals import PublishTotals
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.delta_log import entry_path
from logdrive.pipeline.tables.files import AddedFile, write_file
from logdrive.pipeline.tables.open_table import create_table, open_table
from logdrive.pipeline.tasks import StoppedError
from tests.support.lake import Lake

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
EVENTS = "bronze/events"


class KilledError(Exception):
    """The process ends here."""


class WatchedBucket(Bucket):
    """Calls *after* behind each change."""

    def __init__(self, lake: Lake, after: Callable[[], None]) -> None:
        whole = lake.bucket
        super().__init__(whole._files, whole._root, whole.address)
        self._after = after

    def put_bytes(self, name: str, data: bytes) -> None:
        super().put_bytes(name, data)
        self._after()

    def put_file(self, name: str, path: str) -> None:
        super().put_file(name, path)
        self._after()

    def delete_object(self, name: str) -> None:
        super().delete_object(name)
        self._after()


def kill_after(steps: int) -> Callable[[], None]:
    left = iter(range(steps))

    def step() -> None:
        if next(left, None) is None:
            raise KilledError

    return step


def made(tmp_path: Path, table: str = EVENTS) -> AppendTable:
    (tmp_path / table).parent.mkdir(exist_ok=True)
    return create_table(str(tmp_path / table), SCHEMA)


def added(table: AppendTable, *numbers: int) -> AddedFile:
    file = write_file(table.path, pa.table({"n": numbers}, SCHEMA))
    assert file is not None
    table.add_files([file], {})
    return file


def joined(table: AppendTable) -> AppendTable:
    """Put one file in the place of all, and delete those that it replaces."""
    DeltaTable(table.path).optimize.compact()
    table = open_table(table.path, SCHEMA)
    table.delete_old_files()
    return table


def published(tmp_path: Path, lake: Lake) -> PublishTotals:
    publisher = Publisher(str(tmp_path), lake.bucket)
    publisher.publish(threading.Event())
    return publisher.totals


def copied(lake: Lake, table: str = EVENTS) -> list[int] | None:
    """Return the rows that readers of the copy find, None if there is no table."""
    try:
        there = DeltaTable(f"{lake.address}/{table}", storage_options=lake.options)
    except DeltaError:
        return None
    rows: list[int] = pa.table(there.to_pyarrow_table())["n"].to_pylist()
    return sorted(rows)


def objects(lake: Lake, table: str = EVENTS) -> list[str]:
    """Return the files of rows in the copy."""
    return sorted(name for name in lake.bucket.list_objects(table) if name.startswith("part-"))


def test_readers_of_the_copy_find_the_rows_and_versions_of_the_table(
    tmp_path: Path, lake: Lake
) -> None:
    table, other = made(tmp_path), made(tmp_path, "gold/minutes")
    added(other, 7)
    for round_ in range(3):
        added(table, 10 * round_)
        added(table, 10 * round_ + 1)
        totals = published(tmp_path, lake).tables
        assert (totals[EVENTS].files, totals[EVENTS].version) == (2, 2 * round_ + 2)
    assert copied(lake) == [0, 1, 10, 11, 20, 21]
    assert copied(lake, "gold/minutes") == [7]
    assert published(tmp_path, lake).tables[EVENTS].files == 0

    earlier = DeltaTable(f"{lake.address}/{EVENTS}", version=3, storage_options=lake.options)
    assert sorted(earlier.to_pyarrow_table()["n"].to_pylist()) == [0, 1, 10]
    by_polars = polars.read_delta(f"{lake.address}/{EVENTS}", storage_options=lake.options)
    assert sorted(by_polars["n"]) == copied(lake)


def test_a_column_that_the_table_gets_the_copy_gets(tmp_path: Path, lake: Lake) -> None:
    added(made(tmp_path), 1)
    published(tmp_path, lake)
    wider = SCHEMA.append(pa.field("amount", pa.float64()))
    table = create_table(str(tmp_path / EVENTS), wider)
    file = write_file(table.path, pa.table({"n": [2], "amount": [2.5]}, wider))
    assert file is not None
    table.add_files([file], {})
    published(tmp_path, lake)
    by_polars = polars.read_delta(f"{lake.address}/{EVENTS}", storage_options=lake.options)
    assert by_polars.sort("n").rows() == [(1, None), (2, 2.5)]


def test_a_table_by_days_has_its_directories_in_the_copy(tmp_path: Path, lake: Lake) -> None:
    schema = SCHEMA.append(pa.field("day", pa.date32()))
    (tmp_path / "bronze").mkdir()
    table = create_table(str(tmp_path / EVENTS), schema, ["day"])
    name = "day=2026-11-24/part-1.parquet"
    (Path(table.path) / name).parent.mkdir()
    file = write_file(str((Path(table.path) / name).parent), pa.table({"n": [5]}, SCHEMA))
    assert file is not None
    day = AddedFile(f"day=2026-11-24/{file.name}", file.size, 1, {"day": "2026-11-24"})
    table.add_files([day], {})
    published(tmp_path, lake)
    there = DeltaTable(f"{lake.address}/{EVENTS}", storage_options=lake.options)
    (row,) = there.to_pyarrow_table().to_pylist()
    assert (row["n"], str(row["day"])) == (5, "2026-11-24")


def test_what_the_table_has_lost_the_copy_loses(tmp_path: Path, lake: Lake) -> None:
    table = made(tmp_path)
    for number in range(4):
        added(table, number)
    published(tmp_path, lake)
    before = objects(lake)
    table = joined(table)
    totals = published(tmp_path, lake).tables[EVENTS]
    assert (totals.files, totals.deleted) == (1, 4)
    assert copied(lake) == [0, 1, 2, 3]
    assert not set(before) & set(objects(lake))


def test_the_copy_is_whole_after_each_step_of_each_publication(tmp_path: Path, lake: Lake) -> None:
    table, rows = made(tmp_path), [[0]]
    added(table, 0)
    seen: list[list[int] | None] = []
    publisher = Publisher(str(tmp_path), WatchedBucket(lake, lambda: seen.append(copied(lake))))
    for number in range(1, 4):
        added(table, number)
        rows.append([*rows[-1], number])
    publisher.publish(threading.Event())
    # all of it at once, behind all that belongs to it
    assert set(map(str, seen)) == {"None", str(rows[-1])}

    seen.clear()
    for number in range(4, 7):
        added(table, number)
        rows.append([*rows[-1], number])
    publisher.publish(threading.Event())
    joined(table)
    publisher.publish(threading.Event())
    assert all(each in rows for each in seen)
    assert seen[-1] == rows[-1]


def test_the_copy_is_whole_though_files_went_again_before_they_were_copied(
    tmp_path: Path, lake: Lake
) -> None:
    table = made(tmp_path)
    added(table, 1)
    published(tmp_path, lake)
    added(table, 2)
    added(table, 3)
    joined(table)

    seen: list[list[int] | None] = []
    bucket = WatchedBucket(lake, lambda: seen.append(copied(lake)))
    Publisher(str(tmp_path), bucket).publish(threading.Event())
    assert [1, 2, 3] in seen
    assert all(each in ([1], [1, 2, 3]) for each in seen)


def test_a_table_that_can_t_be_copied_holds_up_no_other(tmp_path: Path, lake: Lake) -> None:
    table = made(tmp_path)
    added(table, 1)
    added(made(tmp_path, "gold/minutes"), 7)
    published(tmp_path, lake)
    shutil.rmtree(tmp_path / "gold")
    added(made(tmp_path, "gold/minutes"), 8)
    added(made(tmp_path, "gold/talkers"), 9)
    added(table, 2)
    (tmp_path / "bronze/unfinished/_delta_log").mkdir(parents=True)
    with pytest.raises(StorageError, match=r"gold/minutes is the copy of a table"):
        published(tmp_path, lake)
    assert copied(lake) == [1, 2]
    assert copied(lake, "gold/minutes") == [7]
    assert copied(lake, "gold/talkers") == [9]


def test_nothing_is_written_to_the_copies_of_another_directory(tmp_path: Path, lake: Lake) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        added(made(tmp_path / name), 1)
    published(tmp_path / "one", lake)
    added(made(tmp_path / "other", "gold/minutes"), 7)
    with pytest.raises(StorageError, match=r"bronze/events is the copy of a table"):
        published(tmp_path / "other", lake)
    assert copied(lake, "gold/minutes") is None


def test_a_directory_that_went_another_way_overwrites_none_of_the_copies(
    tmp_path: Path, lake: Lake
) -> None:
    (tmp_path / "c1").mkdir()
    table = made(tmp_path / "c1")
    added(table, 1)
    added(made(tmp_path / "c1", "bronze/batches"), 1)
    published(tmp_path / "c1", lake)
    shutil.copytree(tmp_path / "c1", tmp_path / "c2")
    added(table, 2)
    published(tmp_path / "c1", lake)
    for name in (EVENTS, "bronze/batches"):
        added(open_table(str(tmp_path / "c2" / name), SCHEMA), 3)
    other = Publisher(str(tmp_path / "c2"), lake.bucket)
    with pytest.raises(StorageError, match="another version 2, as after a restore"):
        other.publish(threading.Event())
    with pytest.raises(StorageError, match="another version 2, as after a restore"):
        other.plan(replace=False)
    assert copied(lake, "bronze/batches") == [1]
    added(table, 4)
    published(tmp_path / "c1", lake)
    assert copied(lake) == [1, 2, 4]


def test_what_is_left_of_dropped_tables_is_not_published(tmp_path: Path, lake: Lake) -> None:
    added(made(tmp_path), 1)
    added(made(tmp_path, "silver.dropped/text"), 2)
    assert list(published(tmp_path, lake).tables) == [EVENTS]


def test_a_file_that_is_missing_is_told_by_its_name(tmp_path: Path, lake: Lake) -> None:
    table = made(tmp_path)
    file = added(table, 1)
    os.unlink(os.path.join(table.path, file.name))
    with pytest.raises(StorageError, match=f"{file.name} is missing"):
        published(tmp_path, lake)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_publication_that_is_killed_at_any_step_goes_on(
    tmp_path: Path, lake: Lake, checkpoint: bool
) -> None:
    table = made(tmp_path)
    rows: list[list[int]] = [[]]
    for number in range(20):
        added(table, number)
        rows.append([*rows[-1], number])
        if checkpoint and number % 7 == 6:
            DeltaTable(table.path).create_checkpoint()
        kill = kill_after(1 + number % 4)
        with suppress(KilledError):
            Publisher(str(tmp_path), WatchedBucket(lake, kill)).publish(threading.Event())
        assert copied(lake) in (None, *rows)
    published(tmp_path, lake)
    assert copied(lake) == rows[-1]


def test_a_copy_that_was_left_behind_for_longer_than_the_log_goes_on_at_a_checkpoint(
    tmp_path: Path, lake: Lake
) -> None:
    table, rows = made(tmp_path), [[0]]
    added(table, 0)
    published(tmp_path, lake)
    for number in range(1, 6):
        added(table, number)
        rows.append([*rows[-1], number])
    DeltaTable(table.path).create_checkpoint()
    for version in range(4):  # as once they have expired
        os.unlink(entry_path(table.path, version))
    added(table, 6)
    rows.append([*rows[-1], 6])
    DeltaTable(table.path).optimize.compact()

    seen: list[list[int] | None] = []
    bucket = WatchedBucket(lake, lambda: seen.append(copied(lake)))
    Publisher(str(tmp_path), bucket).publish(threading.Event())
    assert all(each in rows for each in seen)
    assert copied(lake) == rows[-1]
    entries = lake.bucket.list_objects(EVENTS)
    assert not [name for name in entries if name.endswith(f"{0:020d}.json")]


def test_a_table_that_was_made_anew_replaces_its_copy_only_if_that_is_asked_for(
    tmp_path: Path, lake: Lake
) -> None:
    added(made(tmp_path), 1)
    published(tmp_path, lake)
    shutil.rmtree(tmp_path / "bronze")
    added(made(tmp_path), 2)
    with pytest.raises(StorageError, match=r"made before this one.*--replace"):
        published(tmp_path, lake)
    assert copied(lake) == [1]

    publisher = Publisher(str(tmp_path), lake.bucket)
    planned = publisher.plan(replace=True).tables[EVENTS]
    assert (planned.files, planned.deleted) == (1, 5)
    assert publisher.drop_replaced() == [EVENTS]
    assert publisher.drop_replaced() == []
    publisher.publish(threading.Event())
    assert copied(lake) == [2]
    assert len(objects(lake)) == 1


def test_a_copy_of_another_past_of_the_table_is_left_alone(tmp_path: Path, lake: Lake) -> None:
    (tmp_path / "now").mkdir()
    table = made(tmp_path / "now")
    added(table, 1)
    shutil.copytree(tmp_path / "now", tmp_path / "backup")
    added(table, 2)
    published(tmp_path / "now", lake)
    restored = open_table(str(tmp_path / "backup" / EVENTS), SCHEMA)
    with pytest.raises(StorageError, match="is at version 2, and the table at 1"):
        published(tmp_path / "backup", lake)
    added(restored, 3)
    with pytest.raises(StorageError, match="another version 2, as after a restore"):
        published(tmp_path / "backup", lake)
    assert copied(lake) == [1, 2]


def test_a_table_that_others_have_put_there_is_left_alone(tmp_path: Path, lake: Lake) -> None:
    added(made(tmp_path), 1)
    DeltaTable.create(f"{lake.address}/{EVENTS}", schema=SCHEMA, storage_options=lake.options)
    with pytest.raises(StorageError, match="not published from here"):
        published(tmp_path, lake)
    with pytest.raises(StorageError, match="not published from here"):
        Publisher(str(tmp_path), lake.bucket).drop_replaced()
    assert copied(lake) == []


def test_a_publication_that_is_to_stop_does_so_and_goes_on_later(
    tmp_path: Path, lake: Lake
) -> None:
    table = made(tmp_path)
    for number in range(30):
        added(table, number)
    stop, changes = threading.Event(), iter(range(3))
    bucket = WatchedBucket(lake, lambda: stop.set() if next(changes, None) is None else None)
    with pytest.raises(StoppedError):
        Publisher(str(tmp_path), bucket).publish(stop)
    assert copied(lake) is None
    assert 0 < published(tmp_path, lake).tables[EVENTS].files < 30
    assert copied(lake) == list(range(30))


def test_a_plan_says_what_would_be_done_and_does_nothing(tmp_path: Path, lake: Lake) -> None:
    table = made(tmp_path)
    size = added(table, 1).size
    bucket = lake.bucket
    planned = Publisher(str(tmp_path), bucket).plan(replace=False).tables[EVENTS]
    assert (planned.files, planned.bytes, planned.entries) == (1, size, 2)
    assert objects(lake) == []


def test_a_bucket_that_is_not_there_is_told_by_its_name(tmp_path: Path, lake: Lake) -> None:
    added(made(tmp_path), 1)
    missing = open_bucket("s3://no-such-lake/logs", endpoint=lake.endpoint, region=None)
    with pytest.raises(
        StorageError, match=r"s3://no-such-lake/logs/bronze/events.*make the bucket"
    ):
        Publisher(str(tmp_path), missing).publish(threading.Event())
