"""Tables that earlier versions made go on as they are: read, audited and written.

`tests/vectors/stored/before_days` has tables of a version that knew no days, and the segment that
they were filled from: 30 lines of source a in two commits, 20 of b. The bytes must never change.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.pipeline.bronze import tables as bronze_tables
from logdrive.pipeline.bronze.rebuild import find_source, source_pieces
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.schema import BATCHES, EVENTS
from logdrive.pipeline.tables.open_table import create_table, open_table
from tests.logdrive.pipeline.filling import bronze, catch_up, send, task
from tests.logdrive.pipeline.segments import SEGMENT, Segment, lines, source_id

STORED = Path(__file__).parents[3] / "vectors/stored/before_days"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    shutil.copytree(STORED / "bronze", tmp_path / "bronze")
    return tmp_path


def stored() -> Segment:
    """Return the segment that the tables were filled from."""
    data = bytearray((STORED / "segment.bin").read_bytes())
    return Segment(data=data, clock=1_700_000_000_000 + 86_400_000)


def file_of(directory: Path, source: str) -> bytes:
    ((start, data),) = source_pieces(str(directory), source_id(source))
    assert start == 0
    return data


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def test_they_are_read_without_a_byte_written(directory: Path) -> None:
    before = contents(directory)
    assert file_of(directory, "a") == lines("a", 0, 30)
    assert file_of(directory, find_source_name(directory)) == lines("b", 0, 20)
    events, batches = open_tables(str(directory))
    assert events.read_rows(EVENTS.names).num_rows == 50
    assert batches.read_rows(BATCHES.names).num_rows == 3
    assert events.next_offset(SEGMENT) == batches.next_offset(SEGMENT) == len(stored().data)
    assert contents(directory) == before


def find_source_name(directory: Path) -> str:
    assert find_source(str(directory), "/var/log/b.log") == source_id("b")
    return "b"


def test_they_go_on_where_they_end_and_nothing_of_them_is_rewritten(directory: Path) -> None:
    before, segment = contents(directory), stored()
    send(segment, "a", lines("a", 30, 10), len(lines("a", 0, 30)))
    assert catch_up(directory, segment) == 10
    assert file_of(directory, "a") == lines("a", 0, 40)
    after = contents(directory)
    assert {name: after[name] for name in before} == before
    events, batches = open_tables(str(directory))
    assert events.partition_by == batches.partition_by == ()
    assert catch_up(directory, segment) == 0


def test_what_they_have_is_not_taken_again(directory: Path) -> None:
    segment = stored()
    segment.packed("b", lines("b", 0, 25))
    catch_up(directory, segment)
    assert file_of(directory, "b") == lines("b", 0, 25)


def test_a_commit_that_an_earlier_version_half_made_is_made_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its note names one file of headers, or none, where ours has a list."""
    shutil.copytree(STORED / "bronze/events", tmp_path / "bronze/events")
    shutil.copytree(STORED / "bronze/batches", tmp_path / "bronze/batches")
    (tmp_path / "bronze/batches/_delta_log/00000000000000000002.json").unlink()
    with bronze(tmp_path) as tables:
        assert tables.next_offset(SEGMENT) == len(stored().data)
        assert tables.batches.read_rows(["batch"]).num_rows == 3
    assert file_of(tmp_path, "a") == lines("a", 0, 30)


def test_a_crash_amid_a_commit_to_them_is_repaired(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = stored()
    send(segment, "a", lines("a", 30, 10), len(lines("a", 0, 30)))

    def crash(name: str) -> None:
        if name == "pipeline.commit.between":
            raise KeyboardInterrupt

    monkeypatch.setattr(faults, "on_reach", crash)
    with pytest.raises(KeyboardInterrupt), bronze(directory) as tables:
        tables.commit_ranges([task(directory, segment, tables.next_offset(SEGMENT))])
    monkeypatch.undo()
    assert catch_up(directory, segment) == 0
    assert file_of(directory, "a") == lines("a", 0, 40)


def test_a_column_that_they_lack_is_added_and_null_in_their_rows(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = EVENTS.append(pa.field("team", pa.string()))
    old = open_table(str(directory / "bronze/events"), later)
    assert set(old.read_rows(["team"])["team"].to_pylist()) == {None}
    assert old.read_rows(["batch"], pa.compute.field("team") == "x").num_rows == 0

    before, segment = contents(directory), stored()
    monkeypatch.setattr(bronze_tables, "EVENTS", later)
    send(segment, "a", lines("a", 30, 10), len(lines("a", 0, 30)))
    assert catch_up(directory, segment) == 10
    after = contents(directory)
    assert {name: after[name] for name in before} == before
    assert file_of(directory, "a") == lines("a", 0, 40)
    table = open_table(str(directory / "bronze/events"), EVENTS)
    assert table.read_rows(["team"])["team"].to_pylist() == [None] * 60
    assert catch_up(directory, segment) == 0


def test_a_table_with_columns_of_a_later_version_is_read_but_not_written(directory: Path) -> None:
    path = str(directory / "bronze/events")
    create_table(path, EVENTS.append(pa.field("team", pa.string())))
    assert file_of(directory, "a") == lines("a", 0, 30)
    with pytest.raises(StorageError, match="columns that this version does not write: team"):
        create_table(path, EVENTS)


@pytest.mark.parametrize(
    ("field", "named"),
    [
        (pa.field("team", pa.string(), nullable=False), "team is missing or of another type"),
        (pa.field("ordinal", pa.int64(), nullable=False), "ordinal is missing or of another type"),
    ],
)
def test_other_tables_are_refused_by_the_names_of_their_columns(
    directory: Path, field: pa.Field, named: str
) -> None:
    others = [one for one in EVENTS if one.name != field.name]
    for open_it in (open_table, create_table):
        with pytest.raises(StorageError, match=named):
            open_it(str(directory / "bronze/events"), pa.schema([*others, field]))
