"""Opening tables: errors about a directory say the remedy."""

import os
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyarrow.fs import LocalFileSystem

from logdrive.errors import StorageError
from logdrive.pipeline.bronze.tables import open_tables
from tests.logdrive.pipeline.filling import bronze


def test_a_directory_without_tables_is_told_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(
        StorageError, match="is not a table: run `logdrive pipeline run --to DIR` first"
    ):
        open_tables(str(tmp_path))


def test_tables_of_another_user_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    with bronze(tmp_path):
        pass
    (tmp_path / "bronze/events/_delta_log").rename(tmp_path / "hidden")  # as Delta sees it
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(
        StorageError, match="can't be read: run this as the user who owns the tables"
    ):
        open_tables(str(tmp_path))


def test_tables_are_read_by_arrow_s_own_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that read by way of Python abort the process if they outlive the interpreter."""
    used: list[Any] = []
    read = DeltaTable.to_pyarrow_dataset

    def reading(table: DeltaTable, **options: Any) -> Any:
        dataset = read(table, **options)
        used.append(dataset.filesystem)
        return dataset

    with bronze(tmp_path):
        pass
    monkeypatch.setattr(DeltaTable, "to_pyarrow_dataset", reading)
    for table in open_tables(str(tmp_path)):
        assert table.read_rows(["batch"]).num_rows == 0
    assert [type(each.base_fs) for each in used] == [LocalFileSystem] * 2
