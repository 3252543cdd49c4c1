"""Bronze shown in other forms: what a run commits is there when it ends, and just that."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pytest

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.bronze import follower
from logdrive.pipeline.bronze.follower import TableForm, form_directory
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.erase import erase_rows
from logdrive.pipeline.tables import join_files, upkeep
from logdrive.pipeline.tables.iceberg import open_catalog
from tests.logdrive.pipeline.bronze.test_days import STORED, over_midnight
from tests.logdrive.pipeline.filling import catch_up, send, task
from tests.logdrive.pipeline.segments import SEGMENT, Segment, lines
from tests.logdrive.pipeline.tables.inline import InlineExecutor

NAMES = ("events", "batches")


def in_iceberg(directory: Path) -> dict[str, int]:
    catalog = open_catalog(form_directory(str(directory), "iceberg"))
    return {name: catalog.load_table(("bronze", name)).scan().count() for name in NAMES}


def in_parquet(directory: Path) -> dict[str, int]:
    place = form_directory(str(directory), "parquet")
    return {name: rows_below(f"{place}/{name}") for name in NAMES}


def rows_below(place: str) -> int:
    return len(duckdb.connect().read_parquet(f"{place}/**/*.parquet").fetchall())


READ: Mapping[TableForm, Callable[[Path], dict[str, int]]] = {
    "iceberg": in_iceberg,
    "parquet": in_parquet,
}


def following(directory: Path, form: TableForm) -> Bronze:
    return Bronze(
        str(directory),
        clock=SystemClock(),
        disk=SystemDisk(),
        executor=InlineExecutor(),
        forms=[form],
    )


def commit_rest(directory: Path, segment: Segment, form: TableForm) -> None:
    with following(directory, form) as tables:
        tables.commit_ranges([task(directory, segment, tables.next_offset(SEGMENT))])


@pytest.mark.parametrize("form", READ)
def test_a_run_shows_its_tables_and_what_an_earlier_one_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: TableForm
) -> None:
    catch_up(tmp_path, over_midnight())
    with following(tmp_path, form):
        pass
    assert READ[form](tmp_path) == {"events": 25, "batches": 3}
    segment = over_midnight()
    send(segment, "b", lines("b", 0, 4))
    commit_rest(tmp_path, segment, form)
    assert READ[form](tmp_path) == {"events": 29, "batches": 4}

    def broken(_: str) -> None:
        raise ValueError("no room")

    with monkeypatch.context() as patch:
        patch.setitem(follower._SHOW, form, broken)
        send(segment, "c", lines("c", 0, 4))
        commit_rest(tmp_path, segment, form)
    assert open_tables(str(tmp_path))[0].read_rows(["batch"]).num_rows == 33
    assert READ[form](tmp_path) == {"events": 29, "batches": 4}


@pytest.mark.parametrize("earlier", [False, True], ids=["by day", "of an earlier version"])
@pytest.mark.parametrize("form", READ)
def test_files_that_were_joined_are_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: TableForm, earlier: bool
) -> None:
    for module in (join_files, upkeep):
        monkeypatch.setattr(module, "JOIN_FILES", 3)
    segment, rows = Segment(), 0
    if earlier:
        shutil.copytree(STORED / "bronze", tmp_path / "bronze")
        segment.data[:] = (STORED / "segment.bin").read_bytes()
        rows = 50
    for turn in range(6):
        send(segment, f"c{turn}", lines("c", 0, 2))
        commit_rest(tmp_path, segment, form)
        rows += 2
        assert READ[form](tmp_path)["events"] == rows
    assert len(open_tables(str(tmp_path))[0].files) < 6


def test_plain_files_lie_by_day_and_versions_before_the_last_go(tmp_path: Path) -> None:
    segment = over_midnight()
    for turn in range(4):
        send(segment, f"c{turn}", lines("c", 0, 2))
        commit_rest(tmp_path, segment, "parquet")
    place = tmp_path / "parquet"
    files = duckdb.connect().read_parquet(f"{place}/events/*/*.parquet", hive_partitioning=True)
    assert {str(day) for (day,) in files.select("day").fetchall()} == {"2024-10-03", "2024-10-04"}
    assert len([path for path in place.iterdir() if path.name.startswith(".events.")]) <= 2


def test_what_a_killed_run_has_left_of_a_version_is_made_anew(tmp_path: Path) -> None:
    catch_up(tmp_path, over_midnight())
    events, _ = open_tables(str(tmp_path))
    half = tmp_path / "parquet" / f".events.{events.table_id}.{events.version}"
    half.mkdir(parents=True)
    (half / "part-torn.parquet").write_bytes(b"torn")
    (tmp_path / "parquet" / ".events.link").symlink_to("nowhere")
    with following(tmp_path, "parquet"):
        pass
    assert in_parquet(tmp_path) == {"events": 25, "batches": 3}


def test_no_plain_file_keeps_a_row_that_was_erased(tmp_path: Path) -> None:
    catch_up(tmp_path, over_midnight())
    with following(tmp_path, "parquet"):
        pass
    start = "start = 0"
    erased = erase_rows(
        str(tmp_path), start, by="a test", why=None, clock=SystemClock(), disk=SystemDisk()
    )
    assert erased.rows == 1
    assert not (tmp_path / "parquet").exists()
    with following(tmp_path, "parquet"):
        pass
    assert in_parquet(tmp_path)["events"] == 24
