"""Gold beside a run that fills silver: now and then, through full disks, each row once."""

import errno
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from logdrive.host.disk import SystemDisk
from logdrive.pipeline import steps
from logdrive.pipeline.gold.fill import LOOK_SECONDS, GoldFollower, fill_gold
from logdrive.pipeline.gold.schema import GOLD_SCHEMAS
from logdrive.pipeline.gold.writer import Gold
from logdrive.pipeline.tables import delta, delta_log
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import FullDiskError
from logdrive.pipeline.tables.open_table import open_table_as_it_is
from tests.logdrive.pipeline.gold.counted import check, count
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import fill, grow, silver_rows
from tests.logdrive.pipeline.stopping import NeverSet, RoomIsMade
from tests.support.disks.tmpfs import Tmpfs, tmpfs


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Tmpfs]:
    """It has silver, and gold's tables without rows."""
    with tmpfs(tmp_path / "disk", 3) as disk:
        grow(disk.path, Segment(), 0)
        fill(disk.path)
        with gold_of(disk.path):
            pass
        yield disk


def gold_of(directory: Path) -> Gold:
    return Gold(str(directory), disk=SystemDisk())


def files_in(directory: Path) -> set[Path]:
    """Return the files of rows that gold has, in its tables or not."""
    return set((directory / "gold").rglob("part-*.parquet"))


def test_what_comes_fast_is_counted_now_and_then_and_all_of_it_at_the_end(tmp_path: Path) -> None:
    segment, seconds = Segment(), 100.0

    def add(part: int) -> None:
        grow(tmp_path, segment, part)
        fill(tmp_path)

    with GoldFollower(str(tmp_path), threading.Event(), now=lambda: seconds) as gold:
        gold.catch_up_if_due()  # there is no silver yet, and the time does not count
        steps_after = []
        for part, later in enumerate([0.0, 1.0, LOOK_SECONDS - 1.5, 0.5, 1.0]):
            seconds += later
            add(part)
            gold.catch_up_if_due()
            steps_after.append(gold.totals.steps)
        assert steps_after == [1, 1, 1, 2, 2]
        gold.catch_up()
        assert gold.totals.lines == silver_rows(tmp_path).total()
    check(tmp_path)


def test_a_run_that_is_to_stop_counts_nothing_more(tmp_path: Path) -> None:
    grow(tmp_path, Segment(), 0)
    fill(tmp_path)
    stop = threading.Event()
    stop.set()
    with GoldFollower(str(tmp_path), stop) as gold:
        gold.catch_up()
    assert not (tmp_path / "gold").exists()


@pytest.mark.parametrize("left", [0, 8192])
def test_gold_that_follows_goes_on_once_there_is_room(disk: Tmpfs, left: int) -> None:
    stop = RoomIsMade(disk, left)
    with gold_of(disk.path) as tables:
        fill_gold(tables, stop, follow_seconds=0.125)
    assert stop.seconds == [1.0, 0.125]
    check(disk.path)


@pytest.mark.parametrize("once", [False, True])
def test_a_run_waits_for_room_for_gold_unless_it_is_to_end(disk: Tmpfs, once: bool) -> None:
    stop = RoomIsMade(disk, 8192)
    with GoldFollower(str(disk.path), stop, wait_for_room=not once) as gold:
        if once:
            with pytest.raises((OSError, FullDiskError), match="No space left on device"):
                gold.catch_up()
            return
        gold.catch_up()
    assert stop.seconds == [1.0]
    check(disk.path)


@pytest.mark.parametrize(("left", "once"), [(0, False), (4096, False), (16384, False), (0, True)])
def test_a_run_waits_for_room_to_make_gold_unless_it_is_to_end(
    disk: Tmpfs, left: int, once: bool
) -> None:
    shutil.rmtree(disk.path / "gold")
    stop = RoomIsMade(disk, left)
    with GoldFollower(str(disk.path), stop, wait_for_room=not once) as gold:
        if once:
            with pytest.raises(FullDiskError, match=r"No space left on device.*; make room"):
                gold.catch_up()
            return
        gold.catch_up()
    assert stop.seconds == [1.0]
    check(disk.path)


def test_a_step_that_failed_leaves_no_file_when_the_next_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(tmp_path, Segment(), 0)
    fill(tmp_path)
    left = [2]

    def no_room_once(path: str, version: int, actions: Iterable[delta_log.Action]) -> None:
        left[0] -= 1
        if left[0] == 0:  # of the second table
            raise OSError(errno.ENOSPC, "No space left on device", path)
        delta_log.append_entry(path, version, actions)

    with GoldFollower(str(tmp_path), NeverSet(), wait_for_room=True) as gold:
        monkeypatch.setattr(delta, "append_entry", no_room_once)
        gold.catch_up()
        assert left[0] < 0
        tables = [open_table_as_it_is(str(tmp_path / "gold" / name)) for name in GOLD_SCHEMAS]
        assert files_in(tmp_path) == {Path(file) for table in tables for file in table.files}
    check(tmp_path)


def test_a_commit_for_which_there_is_no_room_is_tried_again_and_at_last_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(self: AppendTable, *arguments: object) -> None:
        raise FullDiskError(f"{self.path} is full")

    grow(tmp_path, Segment(), 0)
    fill(tmp_path)
    stop = NeverSet()
    with GoldFollower(str(tmp_path), stop, wait_for_room=True) as gold:
        monkeypatch.setattr(AppendTable, "add_files", no_room)
        with pytest.raises(FullDiskError):
            gold.catch_up()
        assert stop.count == steps._FAILURES - 1
        monkeypatch.undo()
    assert files_in(tmp_path) == set()
    count(tmp_path)
    check(tmp_path)


def test_a_commit_that_is_there_though_it_failed_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the disk is full when the new entry's directory is synced."""
    left = [2]

    def no_room_once(path: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    grow(tmp_path, Segment(), 0)
    fill(tmp_path)
    with gold_of(tmp_path):
        pass  # its tables are there
    monkeypatch.setattr(delta_log, "sync_directory", no_room_once)
    stop = NeverSet()
    with GoldFollower(str(tmp_path), stop, wait_for_room=True) as gold:
        gold.catch_up()
    assert stop.count == 1
    check(tmp_path)
