"""A Delta table of append-only files: how far it is, what each version added, whose turn it is."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures

from logdrive.errors import StorageError
from logdrive.pipeline.tables.delta import AppendTable, ConcurrentWriterError
from logdrive.pipeline.tables.delta_log import entry_path
from logdrive.pipeline.tables.files import AddedFile, write_file
from logdrive.pipeline.tables.open_table import create_table, open_table

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("text", pa.string())])


def numbers(table: AppendTable, first: int, count: int = 2) -> AddedFile:
    rows = pa.table({"n": range(first, first + count), "text": ["x"] * count}, SCHEMA)
    file = write_file(table.path, rows)
    assert file is not None
    return file


def test_each_version_says_which_files_it_added(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    assert (table.version, table.added_since(0)) == (0, [])
    files = [numbers(table, 10 * n) for n in range(4)]
    table.add_files(files[:1], {"s": (0, 5)})
    table.add_files([], {"s": (5, 6)})
    table.add_files(files[1:3], {}, marks={"upstream": 7})
    table.add_files(files[3:], {})
    assert table.version == 4
    assert table.added_since(0) == [(1, files[:1]), (2, []), (3, files[1:3]), (4, files[3:])]
    assert table.added_since(1, 3) == [(2, []), (3, files[1:3])]
    assert table.added_since(4) == []
    assert open_table(table.path, SCHEMA).added_since(2, 99) == [(3, files[1:3]), (4, files[3:])]


def test_what_only_rearranges_rows_adds_none(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    for n in range(3):
        table.add_files([numbers(table, 10 * n)], {})
    DeltaTable(table.path).optimize.compact()
    table = open_table(table.path, SCHEMA)
    assert [len(files) for _, files in table.added_since(0)] == [1, 1, 1, 0]


def test_a_log_that_no_longer_goes_back_so_far_says_what_to_do(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    for n in range(3):
        table.add_files([numbers(table, 10 * n)], {})
    Path(entry_path(table.path, 2)).unlink()
    assert [version for version, _ in table.added_since(2)] == [3]
    with pytest.raises(StorageError, match=r"version 2.*`logdrive pipeline rebuild`"):
        table.added_since(1)


def test_a_table_that_was_made_anew_is_told_from_one_without_news(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    with pytest.raises(StorageError, match="made anew or restored"):
        table.added_since(1)


def test_marks_are_kept_by_name_and_beside_the_ends_of_segments(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    assert table.mark("upstream") is None
    table.add_files([], {"s": (0, 5)}, marks={"upstream": 0})
    table.add_files([], {}, {"why": "a note"}, marks={"upstream": 3, "other": 9})
    for each in (table, open_table(table.path, SCHEMA)):
        assert (each.mark("upstream"), each.mark("other"), each.next_offset("s")) == (3, 9, 5)
        assert each.read_last_note() == {"ends": {}, "why": "a note"}


def test_two_writers_of_one_mark_conflict_and_nothing_is_added_twice(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    other = open_table(table.path, SCHEMA)
    table.add_files([numbers(table, 0)], {}, marks={"upstream": 1})
    with pytest.raises(ConcurrentWriterError, match="another pipeline writes"):
        other.add_files([numbers(table, 0)], {}, marks={"upstream": 1})
    assert open_table(table.path, SCHEMA).read_rows(["n"]).num_rows == 2


def test_what_another_process_has_committed_is_taken_up_once_and_in_order(tmp_path: Path) -> None:
    """Also what lies before a commit of our own that has passed it over."""
    table = create_table(str(tmp_path / "t"), SCHEMA)
    other = open_table(table.path, SCHEMA)
    files = [numbers(table, 10 * n) for n in range(4)]
    other.add_files(files[:2], {"before": (0, 5)}, {"id": "one"})
    assert [(one.note, one.files) for one in table.take_up(["s"])] == [
        ({"ends": {"before": [0, 5]}, "id": "one"}, files[:2])
    ]
    assert table.mark("before") == 5
    other.add_files(files[2:3], {"before": (5, 6)}, {"id": "two"})
    table.add_files(files[3:], {"s": (0, 9)}, {"id": "ours"})
    other.add_files([], {"before": (6, 7)}, {"id": "three"})
    assert [one.note["id"] for one in table.take_up(["s"])] == ["two", "three"]
    assert table.take_up(["s"]) == []
    assert [one.note["id"] for one in other.take_up(["before"])] == ["ours"]
    assert (table.version, other.version) == (4, 4)
    assert (table.mark("before"), other.mark("s")) == (7, 9)


def test_what_only_rearranges_rows_is_nothing_to_take_up(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    for n in range(3):
        table.add_files([numbers(table, 10 * n)], {})
    DeltaTable(table.path).optimize.compact()
    assert table.take_up(["s"]) == []
    table.add_files([numbers(table, 50)], {"s": (0, 5)})
    assert open_table(table.path, SCHEMA).read_rows(["n"]).num_rows == 8


def test_another_process_that_was_about_to_set_the_same_mark_conflicts(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    other = open_table(table.path, SCHEMA)
    table.add_files([numbers(table, 0)], {"s": (0, 5)})
    with pytest.raises(ConcurrentWriterError, match="it has advanced it"):
        other.take_up(["s"])
    with pytest.raises(ConcurrentWriterError, match="it has advanced it"):
        other.take_up(["s"])


def test_files_are_found_in_directories_of_any_name(tmp_path: Path) -> None:
    """Delta escapes a path in its log, and other parts of it than of the table's own."""
    schema = SCHEMA.append(pa.field("kind", pa.string()))
    table = create_table(str(tmp_path / "a table ä"), schema, ["kind"])
    assert open_table(table.path, schema).partition_by == ("kind",)
    added = []
    for kind in ("plain", "with space", "ü"):
        name = f"kind={kind}/part.parquet"
        Path(table.path, name).parent.mkdir()
        file = numbers(table, 0)
        Path(table.path, file.name).rename(Path(table.path, name))
        added.append(AddedFile(name, file.size, file.rows, {"kind": kind}))
    table.add_files(added, {})
    assert sorted(table.files) == sorted(f"{table.path}/{file.name}" for file in added)
    assert all(Path(path).is_file() for path in table.files)
    assert table.added_since(0) == [(1, added)]
    rows = open_table(table.path, schema).read_rows(["n", "kind"])
    assert sorted(set(rows["kind"].to_pylist())) == ["plain", "with space", "ü"]


def test_an_entry_of_the_log_is_whole_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure there is no empty entry, which readers would stop at."""
    table = create_table(str(tmp_path / "t"), SCHEMA)
    file = numbers(table, 0)
    entry = Path(entry_path(table.path, 1))
    synced: list[bool] = []
    sync = os.fsync

    def full(descriptor: int) -> None:
        synced.append(entry.exists())
        if not synced[1:]:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        table.add_files([file], {"s": (0, 5)})
    assert sorted(path.name for path in entry.parent.iterdir()) == [f"{0:020d}.json"]
    table.add_files([file], {"s": (0, 5)})
    assert synced == [False, False, True]
    assert [path.suffix for path in sorted(entry.parent.iterdir())] == [".json", ".json"]
    assert open_table(table.path, SCHEMA).next_offset("s") == 5


def test_a_table_that_was_given_more_features_is_not_written(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    table.add_files([numbers(table, 0)], {})
    delta = DeltaTable(table.path)
    delta.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(StorageError, match=r"does not write.*deletionVectors"):
        create_table(table.path, SCHEMA)
    with pytest.raises(ConcurrentWriterError, match="changed its columns or properties"):
        table.add_files([], {})


def test_the_writer_of_a_table_is_told_when_its_columns_change(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), SCHEMA)
    create_table(table.path, SCHEMA.append(pa.field("team", pa.string())))
    with pytest.raises(ConcurrentWriterError, match="changed its columns"):
        table.add_files([numbers(table, 0)], {})
    assert open_table(table.path, SCHEMA).read_rows(["n"]).num_rows == 0
