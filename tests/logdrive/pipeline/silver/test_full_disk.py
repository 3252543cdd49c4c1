"""A step of silver that finds its disk full is tried again in what runs on, as bronze's part is."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdrive.cli.tables.silver import follow_with_silver
from logdrive.errors import MAKE_ROOM, file_error_text
from logdrive.pipeline import steps
from logdrive.pipeline.metrics import RunMetrics
from logdrive.pipeline.plan import Plan
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.fill import SilverFollower, fill_silver
from logdrive.pipeline.tables import delta_log
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import FullDiskError
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import bronze_rows, grow, silver_of, silver_rows
from tests.logdrive.pipeline.stopping import NeverSet, RoomIsMade
from tests.support.disks.tmpfs import Tmpfs, tmpfs


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Tmpfs]:
    """It has bronze."""
    with tmpfs(tmp_path / "disk", 3) as disk:
        grow(disk.path, Segment(), 0)
        yield disk


@pytest.mark.parametrize("left", [16384, 24576, 32768])
def test_silver_that_follows_goes_on_once_there_is_room(disk: Tmpfs, left: int) -> None:
    with silver_of(disk.path) as tables:
        stop = RoomIsMade(disk, left)
        fill_silver(tables, stop, follow_seconds=0.125)
    assert stop.seconds == [1.0, 0.125]
    assert silver_rows(disk.path) == bronze_rows(disk.path)


def test_silver_that_ends_by_itself_ends_at_once_and_leaves_no_file(disk: Tmpfs) -> None:
    with silver_of(disk.path) as tables:
        stop = RoomIsMade(disk, 16384)
        with pytest.raises(OSError, match="No space left on device") as error:
            fill_silver(tables, stop)
    assert MAKE_ROOM in file_error_text(error.value)
    assert stop.seconds == []
    assert list((disk.path / "silver").rglob("part-*")) == []


@pytest.mark.parametrize("once", [False, True])
def test_a_run_waits_for_room_for_silver_unless_it_is_to_end(disk: Tmpfs, once: bool) -> None:
    with silver_of(disk.path):
        pass  # its directory is there
    plan = Plan(uri="pravega://127.0.0.1:1/a/b", directory=str(disk.path), once=once)
    stop = RoomIsMade(disk, 16384)
    with follow_with_silver(plan, None, stop, RunMetrics(), wanted=True) as (catch_up, totals):
        if once:
            with pytest.raises(OSError, match="No space left on device"):
                catch_up()
            return
        catch_up()
    assert totals is not None
    assert totals.steps == 1
    assert stop.seconds == [1.0]
    assert silver_rows(disk.path) == bronze_rows(disk.path)


@pytest.mark.parametrize(("left", "once"), [(0, False), (4096, False), (8192, False), (0, True)])
def test_a_run_waits_for_room_to_make_silver_unless_it_is_to_end(
    disk: Tmpfs, left: int, once: bool
) -> None:
    stop = RoomIsMade(disk, left)
    with SilverFollower(str(disk.path), SilverConfig(), stop, wait_for_room=not once) as silver:
        if once:
            with pytest.raises(FullDiskError, match=r"No space left on device.*; make room"):
                silver.catch_up()
            return
        silver.catch_up()
    assert stop.seconds == [1.0]
    assert silver_rows(disk.path) == bronze_rows(disk.path)


def test_a_commit_for_which_there_is_no_room_is_tried_again_and_at_last_raised(
    disk: Tmpfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(self: AppendTable, *arguments: object) -> None:
        raise FullDiskError(f"{self.path} is full")

    stop = NeverSet()
    with silver_of(disk.path) as tables:
        monkeypatch.setattr(AppendTable, "add_files", no_room)
        with pytest.raises(FullDiskError):
            fill_silver(tables, stop, follow_seconds=0.125)
        assert stop.count == steps._FAILURES - 1
        monkeypatch.undo()
        tables.reload_tables()
        assert list((disk.path / "silver").rglob("part-*")) == []
        fill_silver(tables, stop)
    assert silver_rows(disk.path) == bronze_rows(disk.path)


def test_a_commit_that_fails_leaves_no_file_when_the_run_ends(
    disk: Tmpfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(self: AppendTable, *arguments: object) -> None:
        raise FullDiskError(f"{self.path} is full")

    monkeypatch.setattr(AppendTable, "add_files", no_room)
    with pytest.raises(FullDiskError), silver_of(disk.path) as tables:
        tables.next_step()
    assert list((disk.path / "silver").rglob("part-*")) == []


@pytest.mark.parametrize("fails", range(1, 5))
def test_files_of_a_commit_that_is_there_though_it_failed_stay(
    disk: Tmpfs, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """As where the disk is full when the new entry's directory is synced."""
    left = [fails]

    def no_room_once(path: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    with silver_of(disk.path):
        pass  # its table `sources` is there
    monkeypatch.setattr(delta_log, "sync_directory", no_room_once)
    with pytest.raises(FullDiskError), silver_of(disk.path) as tables:
        tables.next_step()
    assert left == [0]
    with silver_of(disk.path) as tables:
        fill_silver(tables, threading.Event())
    assert silver_rows(disk.path) == bronze_rows(disk.path)
