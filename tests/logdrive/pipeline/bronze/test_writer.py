"""Rules A1, A2, R5: the tables take each byte once, through replays, crashes between the two
commits, and stores that went back.
"""

from pathlib import Path

import pyarrow as pa
import pytest

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.pipeline.bronze.rebuild import COLUMNS, rebuild
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import MismatchError
from logdrive.pipeline.bronze.written_range import WrittenRange
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.decode.coverage import Interval
from logdrive.pipeline.decode.headers import rows_from_table
from logdrive.pipeline.decode.schema import BATCHES, EVENTS
from logdrive.pipeline.tables.delta import ConcurrentWriterError
from logdrive.pipeline.tables.files import AddedFile
from tests.logdrive.pipeline.filling import bronze, catch_up, send, task
from tests.logdrive.pipeline.segments import SEGMENT, Segment, lines, source_id


class Crash(BaseException):
    """The end of the process, as a test can survive it."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    points: list[str] = []

    def reached(name: str) -> None:
        if name in points:
            points.clear()
            raise Crash(name)

    monkeypatch.setattr(faults, "on_reach", reached)
    return points


def files(directory: Path) -> dict[str, bytes]:
    """Return every source's file as far as the table has it, which must be from its start and
    without a hole.
    """
    events, _ = open_tables(str(directory))
    table = events.read_rows([*COLUMNS, "source"])
    contents = {}
    for source in set(table["source"].to_pylist()):
        ((start, data),) = rebuild(table.filter(pa.compute.equal(table["source"], source)))
        assert start == 0
        contents[source] = data
    return contents


def kept(directory: Path, source: str) -> list[list[Interval] | None]:
    _, batches = open_tables(str(directory))
    rows = sorted(
        rows_from_table(batches.read_rows(BATCHES.names)),
        key=lambda row: (row.committed or 0, row.segment, row.offset),
    )
    return [row.kept for row in rows if row.source == source_id(source)]


def test_a1_rows_and_headers_reach_their_tables_and_the_next_run_goes_on(tmp_path: Path) -> None:
    segment, one, two = Segment(), lines("a", 0, 50), lines("a", 50, 9)
    at = send(segment, "a", one)
    assert catch_up(tmp_path, segment) == 50
    assert catch_up(tmp_path, segment) == 0
    send(segment, "a", two, at)
    assert catch_up(tmp_path, segment) == 9
    assert files(tmp_path) == {source_id("a"): one + two}
    events, batches = open_tables(str(tmp_path))
    assert events.read_rows(EVENTS.names).num_rows == 59
    assert batches.next_offset(SEGMENT) == events.next_offset(SEGMENT) == len(segment.data)


def test_a_replayed_micro_batch_is_left_out(tmp_path: Path) -> None:
    segment = Segment()
    send(segment, "a", lines("a", 0, 5))
    with bronze(tmp_path) as tables:
        assert tables.commit_ranges([task(tmp_path, segment, 0)]).events == 5
        assert tables.commit_ranges([task(tmp_path, segment, 0)]).events == 0
    assert files(tmp_path) == {source_id("a"): lines("a", 0, 5)}


@pytest.mark.parametrize("start", [7, -1], ids=["a hole", "an overlap"])
def test_what_does_not_begin_where_the_tables_end_is_refused(tmp_path: Path, start: int) -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 5))
    places = [place.offset for place in walk_batches(SEGMENT, 0, bytes(segment.data))]
    send(segment, "a", lines("a", 5, 5), at)
    with bronze(tmp_path) as tables:
        second = len(segment.data) if start == 7 else places[0]
        if start == 7:
            wrong = [WrittenRange(SEGMENT, second, second + 9, 9, [], [])]
        else:
            tables.commit_ranges(
                [
                    task(
                        tmp_path,
                        segment,
                        0,
                        next(walk_batches(SEGMENT, 0, bytes(segment.data))).next,
                    )
                ]
            )
            wrong = [task(tmp_path, segment, 0)]
        with pytest.raises(MismatchError, match="the tables end at offset"):
            tables.commit_ranges(wrong)


@pytest.mark.parametrize(
    "point", [point for point in faults.POINTS if point.startswith("pipeline.commit.")]
)
def test_a_crash_anywhere_in_the_commit_neither_loses_nor_doubles(
    tmp_path: Path, crash_at: list[str], point: str
) -> None:
    segment, whole = Segment(), b""
    for turn in range(3):
        part = lines("a", turn * 10, 10)
        send(segment, "a", part, len(whole))
        segment.gap("b", turn * 5, turn * 5 + 5, "removed")
        whole += part
        crash_at.append(point)
        with pytest.raises(Crash, match=point):
            catch_up(tmp_path, segment)
    catch_up(tmp_path, segment)
    assert files(tmp_path) == {source_id("a"): whole}
    _, batches = open_tables(str(tmp_path))
    assert batches.read_rows(["batch"]).num_rows == 6


@pytest.mark.parametrize(
    "point", [point for point in faults.POINTS if point.startswith("pipeline.commit.")]
)
def test_a_commit_that_fails_in_a_process_that_goes_on_neither_loses_nor_doubles(
    tmp_path: Path, crash_at: list[str], point: str
) -> None:
    """As with a full disk: the cover in memory must not speak of rows that never came."""
    segment, data = Segment(), lines("a", 0, 20)
    send(segment, "a", data)
    with bronze(tmp_path) as tables:
        crash_at.append(point)
        with pytest.raises(Crash):
            tables.commit_ranges([task(tmp_path, segment, 0)])
        with pytest.raises(StorageError, match="not read again"):
            tables.commit_ranges([task(tmp_path, segment, 0)])
        tables.reload_tables()
        at = tables.next_offset(SEGMENT)
        assert at in (0, len(segment.data))
        tables.commit_ranges([task(tmp_path, segment, at)] if at < len(segment.data) else [])
    assert files(tmp_path) == {source_id("a"): data}


def test_tables_on_a_disk_that_takes_nothing_end_in_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "bronze").write_text("in the way")
    with pytest.raises(StorageError, match="can't be written"), bronze(tmp_path):
        pass


def test_a_crash_between_the_commits_does_not_make_a_later_run_forget_the_cover(
    tmp_path: Path, crash_at: list[str]
) -> None:
    segment, other = Segment(), Segment(name="logs/app/1.#epoch.0")
    send(segment, "a", lines("a", 0, 10))
    crash_at.append("pipeline.commit.between")
    with pytest.raises(Crash):
        catch_up(tmp_path, segment)
    send(other, "a", lines("a", 0, 12))
    assert catch_up(tmp_path, segment, other) == 2
    assert files(tmp_path) == {source_id("a"): lines("a", 0, 12)}


def test_a2_what_came_before_in_another_segment_or_stream_is_not_kept_again(tmp_path: Path) -> None:
    one, two = Segment(), Segment(name="logs/app/1.#epoch.0")
    data = lines("a", 0, 30)
    send(one, "a", data[:200])
    assert data[199:200] != b"\n", "the cut is to go through a line"
    catch_up(tmp_path, one)
    send(two, "a", data)
    send(two, "b", lines("b", 0, 3))
    catch_up(tmp_path, two)
    assert files(tmp_path) == {source_id("a"): data, source_id("b"): lines("b", 0, 3)}
    assert kept(tmp_path, "a") == [[(0, 200)], [(200, len(data))]]
    events, _ = open_tables(str(tmp_path))
    assert sorted(set(events.read_rows(["flag"])["flag"].to_pylist()), key=str) == [None, "cut"]


def test_a2_overlaps_inside_one_micro_batch_and_one_file_are_cut_too(tmp_path: Path) -> None:
    segment, data = Segment(), lines("a", 0, 30)
    send(segment, "a", data[:300])
    send(segment, "a", data[100:250], 100)
    send(segment, "a", data[100:], 100)
    catch_up(tmp_path, segment)
    assert files(tmp_path) == {source_id("a"): data}
    assert kept(tmp_path, "a") == [[(0, 300)], [], [(300, len(data))]]


def test_a2_gaps_never_cover(tmp_path: Path) -> None:
    segment, data = Segment(), lines("a", 0, 5)
    segment.gap("a", 0, len(data), "elsewhere")
    send(segment, "a", data)
    catch_up(tmp_path, segment)
    assert files(tmp_path) == {source_id("a"): data}


def test_r5_a_store_restored_from_a_backup_is_read_again_from_last_header_that_matches(
    tmp_path: Path,
) -> None:
    segment, data = Segment(), lines("a", 0, 40)
    at = send(segment, "a", data[:300])
    backup = bytes(segment.data)
    at = send(segment, "a", data[300:500], at)
    segment.foreign("beats", [b'{"message":"lost with the disk"}'])
    catch_up(tmp_path, segment)
    segment.data[:] = backup
    segment.clock += 1000
    # the agent sends again from what the restored store has (D5)
    send(segment, "a", data[300:], 300)
    segment.foreign("beats", [b'{"message":"after"}'])
    with bronze(tmp_path) as tables:
        chain = tables.header_chain(SEGMENT)
        crcs = {place.offset: place.crc for place in walk_batches(SEGMENT, 0, bytes(segment.data))}
        matching = [known for known in chain if crcs.get(known.offset) == known.crc]
        assert [known.next for known in matching] == [len(backup)]
        tables.roll_back(SEGMENT, chain, matching[-1])
        tables.commit_ranges([task(tmp_path, segment, tables.next_offset(SEGMENT))])
    events, _ = open_tables(str(tmp_path))
    table = events.read_rows([*COLUMNS, "source"])
    mine = table.filter(pa.compute.equal(table["source"], source_id("a")))
    assert list(rebuild(mine)) == [(0, data)]
    with bronze(tmp_path) as tables:
        assert tables.next_offset(SEGMENT) == len(segment.data)
        assert tables.header_chain(SEGMENT)[-1].next == len(segment.data)


def test_r5_batches_met_again_after_going_back_are_recognised_even_without_positions(
    tmp_path: Path,
) -> None:
    segment = Segment()
    segment.foreign("beats", [b'{"message":"once"}'])
    segment.foreign("beats", [b'{"message":"twice"}'])
    catch_up(tmp_path, segment)
    with bronze(tmp_path) as tables:
        tables.roll_back(SEGMENT, tables.header_chain(SEGMENT), None)
        tables.commit_ranges([task(tmp_path, segment, 0)])
    events, _ = open_tables(str(tmp_path))
    assert sorted(events.read_rows(["message"])["message"].to_pylist()) == ["once", "twice"]


def test_two_pipelines_never_write_the_same_tables(tmp_path: Path) -> None:
    segment = Segment()
    send(segment, "a", lines("a", 0, 5))
    with bronze(tmp_path) as tables:
        with pytest.raises(StorageError, match="in use by another pipeline"), bronze(tmp_path):
            pass
        stranger, _ = open_tables(str(tmp_path))
        stranger.add_files([], {SEGMENT: (0, 3)})
        with pytest.raises(ConcurrentWriterError):
            tables.commit_ranges([task(tmp_path, segment, 0)])


def test_tables_of_which_one_was_restored_are_refused(tmp_path: Path) -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 5))
    catch_up(tmp_path, segment)
    before = {
        path: path.read_bytes()
        for path in (tmp_path / "bronze" / "batches").rglob("*")
        if path.is_file()
    }
    for turn in (1, 2):
        at = send(segment, "a", lines("a", 5 * turn, 5), at)
        catch_up(tmp_path, segment)
    for path in (tmp_path / "bronze" / "batches").rglob("*"):
        if path.is_file() and path not in before:
            path.unlink()
    with pytest.raises(StorageError, match="do not belong together"):
        catch_up(tmp_path, segment)


def test_a_file_added_has_all_its_rows(tmp_path: Path) -> None:
    segment = Segment()
    send(segment, "a", lines("a", 0, 5))
    with bronze(tmp_path):
        written = task(tmp_path, segment, 0)
    (file,) = written.files
    assert isinstance(file, AddedFile)
    assert file.rows == 5
    assert (tmp_path / "bronze" / "events" / file.name).stat().st_size == file.size
