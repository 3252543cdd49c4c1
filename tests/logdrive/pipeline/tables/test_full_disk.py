"""What does not fit the disk leaves no file behind, so that trying again fills nothing, and says
which file it was.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from logdrive.errors import file_error_text
from logdrive.pipeline.silver.outputs import SilverFiles
from logdrive.pipeline.tables.day_files import DayFiles
from logdrive.pipeline.tables.failures import FullDiskError
from logdrive.pipeline.tables.files import write_file
from logdrive.pipeline.tables.open_table import create_table
from tests.support.disks.tmpfs import tmpfs

NAMED = r"^No space left on device: /.*/disk/.*part-.*\.parquet; make room on its disk$"
SCHEMA = pa.schema([("received", pa.timestamp("us", tz="UTC")), ("data", pa.binary())])


def rows(day: int, size: int) -> pa.Table:
    """Rows of one day that can't be compressed."""
    noise = np.random.default_rng(day).bytes(size)
    data = [noise[at : at + 1000] for at in range(0, size, 1000)]
    received = [datetime(2026, 1, day, tzinfo=UTC)] * len(data)
    return pa.table([received, data], schema=SCHEMA)


def files_below(path: Path) -> list[Path]:
    return [one for one in path.rglob("*.parquet") if one.is_file()]


@pytest.mark.parametrize("left", [0, 4096, 60_000, 150_000])
def test_files_of_days_that_do_not_fit_are_removed(tmp_path: Path, left: int) -> None:
    with tmpfs(tmp_path / "disk", 1) as disk:
        disk.fill(but=left)
        full = pytest.raises(OSError)  # noqa: PT011 - its text is looked at below
        with full as failure, DayFiles(str(disk.path), SCHEMA) as files:
            files.write_row_group(rows(1, 50_000))
            files.write_row_group(rows(2, 200_000))
        assert re.match(NAMED, file_error_text(failure.value))
        assert files_below(disk.path) == []


@pytest.mark.parametrize("left", [0, 4096, 60_000, 150_000])
def test_files_of_silver_that_do_not_fit_are_removed(tmp_path: Path, left: int) -> None:
    with tmpfs(tmp_path / "disk", 1) as disk:
        disk.fill(but=left)
        full = pytest.raises(OSError)  # noqa: PT011 - likewise
        with full as failure, SilverFiles(str(disk.path), "snappy") as files:
            files.add_rows("access", rows(1, 50_000))
            files.add_rows("text", rows(2, 200_000))
        assert re.match(NAMED, file_error_text(failure.value))
        assert files_below(disk.path) == []


def test_a_table_or_commit_that_does_not_fit_is_named_with_the_remedy(tmp_path: Path) -> None:
    said = r"{} can't be read or written: .*No space left on device.*; make room on its disk$"
    with tmpfs(tmp_path / "disk", 1) as disk:
        table = create_table(str(disk.path / "table"), SCHEMA)
        file = write_file(table.path, rows(1, 1000))
        assert file is not None
        disk.fill()
        with pytest.raises(FullDiskError, match=said.format(table.path)) as failure:
            table.add_files([file], {}, {})
        assert str(failure.value).isprintable()
        other = str(disk.path / "other")
        with pytest.raises(FullDiskError, match=said.format(other)) as failure:
            create_table(other, SCHEMA)
        assert str(failure.value).isprintable()
