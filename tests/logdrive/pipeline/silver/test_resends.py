"""Filebeat's resends are kept once; another file under the same path is never taken for one."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from logdrive.host import faults
from logdrive.pipeline.silver.balance import silver_balance
from logdrive.pipeline.silver.sent_lines import SentLines
from tests.logdrive.pipeline.filling import catch_up
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import (
    bronze_rows,
    fill,
    foreign,
    read,
    silver_rows,
)


@dataclass
class Beat:
    """A Filebeat: one process, which reads one file, and stamps lines as it reads them."""

    process: str = "first"
    inode: int | None = None
    path: str = "/var/log/shop/app.log"
    second: int = 0

    def read(self, lines: list[str], start: int = 0) -> list[dict[str, Any]]:
        """Return *lines*, which begin at *start*, as events."""
        events = []
        for line in lines:
            file: dict[str, Any] = {"path": self.path}
            if self.inode is not None:
                file |= {"inode": str(self.inode), "device_id": "66306"}
            self.second += 1
            events.append(
                {
                    "@timestamp": f"2026-11-23T{self.second // 3600:02}:"
                    f"{self.second // 60 % 60:02}:{self.second % 60:02}.123Z",
                    "host": {"name": "web-3"},
                    "agent": {"type": "filebeat", "ephemeral_id": self.process},
                    "log": {"offset": start, "file": file},
                    "message": line,
                }
            )
            start += len(line) + 1
        return events

    def restarted(self) -> "Beat":
        return replace(self, process=self.process + "'")


@dataclass
class Sent:
    """Bronze that grows by windows, and silver that follows after each."""

    directory: Path
    segment: Segment = field(default_factory=Segment)
    unsure: int = 0

    def send(self, events: list[dict[str, Any]]) -> None:
        foreign(self.segment, events)
        catch_up(self.directory, self.segment)
        self.unsure += sum(step.unsure for step in fill(self.directory))

    def kept(self) -> list[str]:
        rows = read(self.directory, "text").sort_by([("received", "ascending")])
        return list(rows["message"].to_pylist())

    def settle(self, duplicates: int) -> None:
        """Demand that each row of bronze is in silver once, *duplicates* of them as such."""
        assert silver_rows(self.directory) == bronze_rows(self.directory)
        balance = silver_balance(str(self.directory))
        assert balance is not None
        assert balance.adds_up
        assert sum(one.duplicates for one in balance.sources) == duplicates


@pytest.fixture
def sent(tmp_path: Path) -> Sent:
    return Sent(tmp_path)


LINES = [f"line {n}" for n in range(40)]
PLACE = len("\n".join(LINES[:30])) + 1  # where line 30 begins


@pytest.mark.parametrize("inode", [None, 77])
def test_a_window_that_is_sent_again_is_kept_once(sent: Sent, inode: int | None) -> None:
    window = Beat(inode=inode).read(LINES)
    sent.send(window)
    sent.send(window)
    sent.send(window[20:])
    assert sent.kept() == LINES
    sent.settle(duplicates=60)
    assert sent.unsure == 0


@pytest.mark.parametrize("inode", [None, 77])
def test_what_a_restarted_filebeat_reads_again_is_kept_once(sent: Sent, inode: int | None) -> None:
    beat = Beat(inode=inode)
    sent.send(beat.read(LINES))
    more = [*LINES[30:], "line 40", "line 41"]
    sent.send(beat.restarted().read(more, PLACE))
    assert sent.kept() == [*LINES, "line 40", "line 41"]
    sent.settle(duplicates=10)


def test_a_whole_file_that_is_read_again_is_kept_once_where_its_inode_is_known(
    sent: Sent,
) -> None:
    beat = Beat(inode=77)
    sent.send(beat.read(LINES))
    sent.send(beat.restarted().read(LINES))
    assert sent.kept() == LINES
    sent.settle(duplicates=40)


def test_a_whole_file_that_is_read_again_is_kept_twice_where_it_might_be_another(
    sent: Sent,
) -> None:
    """Without an inode the lines may be of a file that took the place of the first."""
    beat = Beat()
    sent.send(beat.read(LINES))
    sent.send(beat.restarted().read(LINES))
    assert sent.kept() == LINES * 2
    sent.settle(duplicates=0)
    assert sent.unsure == 40
    assert read(sent.directory, "sent")["unsure"].to_pylist().count(True) == 40


@pytest.mark.parametrize("inode", [None, 77])
def test_lines_that_were_read_before_and_come_later_as_a_backfill_brings_them(
    sent: Sent, inode: int | None
) -> None:
    """Without an inode they may be of a file that had the path before."""
    early = Beat(inode=inode)
    before = early.read(LINES[30:], PLACE)
    sent.send(replace(early.restarted(), second=early.second).read(LINES))
    sent.send(before)
    assert sorted(sent.kept()) == sorted(LINES if inode else LINES + LINES[30:])
    sent.settle(duplicates=10 if inode else 0)
    assert sent.unsure == (0 if inode else 10)


@pytest.mark.parametrize("inode", [None, 77])
def test_a_rotated_file_with_lines_of_its_own_is_kept(sent: Sent, inode: int | None) -> None:
    beat, other = Beat(inode=inode), [f"Line {n}" for n in range(40)]
    sent.send(beat.read(LINES))
    sent.send(beat.read(other))
    sent.send(beat.restarted().read(LINES[:3]))
    assert sent.kept() == LINES + other + (LINES[:3] if inode is None else [])


@pytest.mark.parametrize("inode", [None, 77])
def test_equal_lines_of_a_rotated_file_are_kept(sent: Sent, inode: int | None) -> None:
    """The same process reads them: it reads a file again only if it is another, or truncated."""
    beat = Beat(inode=inode)
    sent.send(beat.read(["# header", "tick", "tick"]))
    sent.send(beat.read(["# header", "tick", "tick", "tick"]))
    assert sent.kept() == ["# header", "tick", "tick", "# header", "tick", "tick", "tick"]
    sent.settle(duplicates=0)


def test_files_with_other_inodes_are_never_compared(sent: Sent) -> None:
    beat = Beat(inode=77)
    sent.send(beat.read(LINES))
    sent.send(replace(beat.restarted(), inode=78).read(LINES))
    assert sent.kept() == LINES * 2
    assert sent.unsure == 0


def test_windows_that_come_out_of_order_are_kept(sent: Sent) -> None:
    """As with several connections: `loadbalance`, `worker`."""
    beat = Beat()
    window = beat.read(LINES)
    sent.send(window[20:])
    sent.send(window[:20])
    sent.send(window[10:30])
    assert sorted(sent.kept()) == sorted(LINES)
    sent.settle(duplicates=20)


def test_lines_without_an_offset_are_never_duplicates(sent: Sent) -> None:
    event = {"message": "the same", "@timestamp": "2026-11-23T00:00:00Z", "source": "/a"}
    sent.send([event, event])
    sent.send([event])
    assert sent.kept() == ["the same"] * 3
    sent.settle(duplicates=0)


def test_a_number_called_offset_makes_no_duplicates(sent: Sent) -> None:
    """An application's own field: equal lines at other times are other lines."""
    for second in range(3):
        stamp = f"2026-11-23T00:00:0{second}Z"
        sent.send([{"message": "hit", "@timestamp": stamp, "source": "web", "offset": 17}])
    assert sent.kept() == ["hit"] * 3


@pytest.mark.parametrize(
    "point", [point for point in faults.POINTS if point.startswith("pipeline.silver.")]
)
def test_a_crash_amid_resends_keeps_each_line_once(
    sent: Sent, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    class Crash(BaseException):
        pass

    def reached(name: str) -> None:
        if name == point:
            raise Crash(name)

    window = Beat().read(LINES)
    sent.send(window[:20])
    for again in (window[10:30], window[5:]):
        foreign(sent.segment, again)
        catch_up(sent.directory, sent.segment)
        monkeypatch.setattr(faults, "on_reach", reached)
        with pytest.raises(Crash):
            fill(sent.directory)
        monkeypatch.setattr(faults, "on_reach", None)
    fill(sent.directory)
    assert sent.kept() == LINES
    sent.settle(duplicates=35)


def test_lines_beyond_memory_are_looked_up_in_the_table(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SentLines.__init__, "__defaults__", ((), 16))
    beat = Beat()
    window = beat.read(LINES)
    sent.send(window)
    sent.send(Beat(path="/var/log/other.log").read([f"other {n}" for n in range(40)]))
    sent.send(window)
    assert sorted(sent.kept())[:40] == sorted(LINES)
    sent.settle(duplicates=40)
