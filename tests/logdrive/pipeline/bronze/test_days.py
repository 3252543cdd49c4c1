"""New tables are partitioned by the day on which the receiver had a batch; every reader sees it."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from logdrive.host import faults
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.tables import join_files, upkeep
from tests.logdrive.pipeline.filling import catch_up, send, task
from tests.logdrive.pipeline.segments import SEGMENT, Segment, lines, source_id
from tests.logdrive.pipeline.tables.inline import InlineExecutor

STORED = Path(__file__).parents[3] / "vectors/stored/before_days"
DAY = 86_400_000


def over_midnight() -> Segment:
    """Return a segment with lines 0 to 10 of a on one day, to 20 on the next, to 25 on both."""
    segment = Segment(clock=20_000 * DAY - 20)
    data = lines("a", 0, 25)
    at = send(segment, "a", data[: len(lines("a", 0, 10))])
    at = send(segment, "a", data[at : len(lines("a", 0, 20))], at)
    # sent again, with five more lines
    send(segment, "a", data[len(lines("a", 0, 5)) :], len(lines("a", 0, 5)))
    return segment


def days_of(directory: Path) -> list[dict[str, list[str]]]:
    """Return, by table, the files of each day."""
    return [
        {
            day.name: sorted(file.name for file in day.iterdir())
            for day in Path(table.path).glob("day=*")
        }
        for table in open_tables(str(directory))
    ]


def file_of(directory: Path) -> bytes:
    ((start, data),) = source_pieces(str(directory), source_id("a"))
    assert start == 0
    return data


def test_a_range_over_midnight_is_one_commit_with_a_file_a_day(tmp_path: Path) -> None:
    catch_up(tmp_path, over_midnight())
    assert file_of(tmp_path) == lines("a", 0, 25)
    for table, days in zip(open_tables(str(tmp_path)), days_of(tmp_path), strict=True):
        assert table.partition_by == ("day",)
        assert table.version == 1
        assert list(map(len, days.values())) == [1, 1]
        assert set(days) == {"day=2024-10-03", "day=2024-10-04"}
    events, batches = open_tables(str(tmp_path))
    for table in (events, batches):
        rows = table.read_rows(["received", "day"])
        days = pa.compute.cast(rows["received"], pa.date32())
        assert rows["day"].to_pylist() == days.to_pylist()
    assert sorted(set(events.read_rows(["day"])["day"].cast(pa.string()).to_pylist())) == [
        "2024-10-03",
        "2024-10-04",
    ]


@pytest.mark.parametrize(
    "point", [point for point in faults.POINTS if point.startswith("pipeline.commit.")]
)
def test_a_crash_neither_loses_nor_doubles_what_lies_in_two_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def crash(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    monkeypatch.setattr(faults, "on_reach", crash)
    with pytest.raises(KeyboardInterrupt):
        catch_up(tmp_path, over_midnight())
    monkeypatch.undo()
    catch_up(tmp_path, over_midnight())
    assert file_of(tmp_path) == lines("a", 0, 25)
    assert open_tables(str(tmp_path))[1].read_rows(["batch"]).num_rows == 3


def test_one_day_is_found_without_opening_the_files_of_others(tmp_path: Path) -> None:
    catch_up(tmp_path, over_midnight())
    events, _ = open_tables(str(tmp_path))
    (other,) = Path(events.path).glob("day=2024-10-03/*")
    other.write_bytes(b"no parquet")
    day = pa.compute.field("day") == pa.scalar("2024-10-04").cast(pa.date32())
    assert events.read_rows(["message"], day).num_rows > 0


@pytest.mark.parametrize("earlier", [False, True], ids=["by day", "of an earlier version"])
def test_small_files_are_joined_and_nothing_changes_for_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    for module in (join_files, upkeep):
        monkeypatch.setattr(module, "JOIN_FILES", 3)
    segment, at = Segment(), 0
    if earlier:
        shutil.copytree(STORED / "bronze", tmp_path / "bronze")
        segment.data[:] = (STORED / "segment.bin").read_bytes()
        at = len(lines("a", 0, 30))
    first = 30 if earlier else 0
    for turn in range(first, first + 12):
        at = send(segment, "a", lines("a", turn, 1), at)
    executor = InlineExecutor()
    with Bronze(str(tmp_path), clock=SystemClock(), disk=SystemDisk(), executor=executor) as tables:
        start = tables.next_offset(SEGMENT)
        for place in walk_batches(SEGMENT, start, bytes(segment.data[start:])):
            tables.commit_ranges([task(tmp_path, segment, place.offset, place.next)])
    for table in open_tables(str(tmp_path)):
        assert len(table.files) < 8
        assert table.next_offset(SEGMENT) == len(segment.data)
        names = [name for name in table.schema.names if name != "day"]
        assert table.read_rows(names).num_rows >= 12
    assert file_of(tmp_path) == lines("a", 0, first + 12)
    # once more: the joined files know where each row came from
    assert catch_up(tmp_path, segment) == 0
    send(segment, "a", lines("a", 0, first + 13))
    assert catch_up(tmp_path, segment) == 1
    assert file_of(tmp_path) == lines("a", 0, first + 13)
