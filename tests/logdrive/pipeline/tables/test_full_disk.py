"""What does not fit the disk leaves no file behind, so that trying again fills nothing."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from logdrive.pipeline.silver.outputs import SilverFiles
from logdrive.pipeline.tables.day_files import DayFiles
from tests.support.tmpfs import tmpfs

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
        full = pytest.raises(OSError, match="No space left")
        with full, DayFiles(str(disk.path), SCHEMA) as files:
            files.write_row_group(rows(1, 50_000))
            files.write_row_group(rows(2, 200_000))
        assert files_below(disk.path) == []


@pytest.mark.parametrize("left", [0, 4096, 60_000, 150_000])
def test_files_of_silver_that_do_not_fit_are_removed(tmp_path: Path, left: int) -> None:
    with tmpfs(tmp_path / "disk", 1) as disk:
        disk.fill(but=left)
        full = pytest.raises(OSError, match="No space left")
        with full, SilverFiles(str(disk.path), "snappy") as files:
            files.add_rows("access", rows(1, 50_000))
            files.add_rows("text", rows(2, 200_000))
        assert files_below(disk.path) == []
