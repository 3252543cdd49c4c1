"""A table that grows by small commits stays quick to open and read, and loses nothing by it."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from logdrive.pipeline.tables import join_files, upkeep
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.delta_log import entry_path
from logdrive.pipeline.tables.files import AddedFile, write_file
from logdrive.pipeline.tables.open_table import create_table, open_table
from logdrive.pipeline.tables.upkeep import TableUpkeep
from tests.logdrive.pipeline.tables.inline import InlineExecutor

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("text", pa.string())])


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_files, "JOIN_FILES", 4)
    monkeypatch.setattr(upkeep, "JOIN_FILES", 4)
    monkeypatch.setattr(upkeep, "_CHECKPOINT_COMMITS", 10)


def add(table: AppendTable, n: int) -> AddedFile:
    file = write_file(table.path, pa.table({"n": [n], "text": ["x"]}, SCHEMA))
    assert file is not None
    table.add_files([file], {"s": (n, n + 1)}, {"n": n})
    return file


def grown(path: Path, count: int) -> AppendTable:
    table = create_table(str(path), SCHEMA)
    work = TableUpkeep(table, InlineExecutor())
    for n in range(count):
        add(table, n)
        work.after_commit()
    work.finish()
    return table


def numbers(path: str) -> list[int]:
    return sorted(open_table(path, SCHEMA).read_rows(["n"])["n"].to_pylist())


def test_small_files_are_joined_and_readers_see_the_same_rows(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 30)
    assert len(table.files) < 8
    for each in (table, open_table(table.path, SCHEMA)):
        assert sorted(each.read_rows(["n"])["n"].to_pylist()) == list(range(30))
        assert each.next_offset("s") == 30
        assert each.read_last_note()["n"] == 29
    assert sorted(DeltaTable(table.path).to_pyarrow_table()["n"].to_pylist()) == list(range(30))
    new = [files for _, files in table.added_since(0) if files]
    assert [len(files) for files in new] == [1] * 30


def test_a_checkpoint_is_written_and_the_table_read_from_there(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 60)
    version = upkeep._last_checkpoint(table.path)[0]
    assert table.version - version <= 20
    for old in range(version):
        os.unlink(entry_path(table.path, old))
    assert numbers(table.path) == list(range(60))
    assert open_table(table.path, SCHEMA).next_offset("s") == 60


def test_what_has_expired_is_swept_and_nothing_else(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 5)
    old = Path(table.path, "part-crashed.parquet")
    old.write_bytes(b"of a micro-batch that no commit names")
    young = Path(table.path, "part-young.parquet")
    young.write_bytes(b"of one that is being written")
    os.utime(old, (0, 0))
    log = Path(table.path, "_delta_log")
    draft = log / ".crashed.tmp"
    draft.touch()
    for file in (*map(Path, table.files), *log.iterdir()):
        os.utime(file, (0, 0))
    (log / ".young.tmp").touch()
    upkeep._checkpoint_and_sweep(table.path, sweep=True)
    assert not old.exists()
    assert not draft.exists()
    assert young.exists()
    assert (log / ".young.tmp").exists()
    assert not Path(entry_path(table.path, 0)).exists()
    assert numbers(table.path) == list(range(5))
    # the sweep makes commits of its own, which are no hindrance
    add(table, 5)
    assert numbers(table.path) == list(range(6))


def test_no_commit_waits_for_the_upkeep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, go = create_table(str(tmp_path / "t"), SCHEMA), threading.Event()
    join = join_files.join_files

    def slow(*arguments: object) -> AddedFile:
        assert go.wait(60)
        return join(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(upkeep, "join_files", slow)
    with ThreadPoolExecutor(1) as executor:
        work = TableUpkeep(table, executor)
        for n in range(9):
            add(table, n)
            work.after_commit()
        assert len(table.files) == 9
        go.set()
        work.finish()
    assert len(table.files) <= 6
    assert numbers(table.path) == list(range(9))


def test_what_another_writer_has_joined_is_not_joined_again(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    work = TableUpkeep(table, InlineExecutor())
    for n in range(4):
        add(table, n)
    work.after_commit()  # has joined, but not committed
    DeltaTable(table.path).optimize.compact()
    work.finish()
    assert numbers(table.path) == [0, 1, 2, 3]
    assert len(open_table(table.path, SCHEMA).files) == 1
    add(table, 4)
    assert numbers(table.path) == [0, 1, 2, 3, 4]


def test_rows_that_another_writer_removes_stay_removed(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    work = TableUpkeep(table, InlineExecutor())
    files = [add(table, n) for n in range(4)]
    work.after_commit()
    delta = DeltaTable(table.path)
    gone = RemoveAction(files[2].name, True, 0, files[2].size)
    delta.create_write_transaction([gone], "append", delta.schema())
    add(table, 4)
    work.after_commit()
    work.finish()
    assert numbers(table.path) == [0, 1, 3, 4]


def test_a_join_that_fails_is_told_and_the_table_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> AddedFile:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "join_files", full)
        table = grown(tmp_path / "t", 9)
    assert len(table.files) == 9
    assert numbers(table.path) == list(range(9))


def test_what_was_joined_and_is_not_committed_leaves_no_file(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    work = TableUpkeep(table, InlineExecutor())
    for n in range(4):
        add(table, n)
    work.after_commit()
    assert len(list(Path(table.path).glob("*.parquet"))) == 5
    work.abandon()
    assert sorted(map(str, Path(table.path).glob("*.parquet"))) == sorted(table.files)


def test_columns_that_are_not_ours_are_not_joined_away(tmp_path: Path) -> None:
    longer = SCHEMA.append(pa.field("team", pa.string()))
    table = create_table(str(tmp_path / "t"), SCHEMA)
    work = TableUpkeep(table, InlineExecutor())
    other = create_table(table.path, longer)
    file = write_file(table.path, pa.table({"n": [9], "text": ["x"], "team": ["blue"]}, longer))
    assert file is not None
    other.add_files([file], {"other": (0, 1)})
    add(open_table(table.path, SCHEMA), 1)
    table.added = 8
    work.after_commit()
    work.finish()
    rows = open_table(table.path, longer).read_rows(["n", "team"])
    assert sorted(rows.to_pylist(), key=str) == [{"n": 1, "team": None}, {"n": 9, "team": "blue"}]


def test_delta_rs_and_we_append_to_one_table_in_turns(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    for n in range(0, 6, 2):
        add(table, n)
        delta = DeltaTable(table.path)
        file = write_file(table.path, pa.table({"n": [n + 1], "text": ["y"]}, SCHEMA))
        assert file is not None
        action = AddAction(file.name, file.size, {}, 0, True, '{"numRecords": 1}')
        delta.create_write_transaction([action], "append", delta.schema())
    assert numbers(table.path) == list(range(6))
    assert table.version == 5
    assert DeltaTable(table.path).version() == 6
