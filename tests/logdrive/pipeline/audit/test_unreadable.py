"""Files whose bytes a disk has changed: `audit --full` finds them, and commands name them."""

import errno
import json
import pickle
import shutil
from functools import partial
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from logdrive.cli.main import cli
from logdrive.errors import StorageError
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.audit.engines.arrow import ArrowEngine
from logdrive.pipeline.audit.engines.engine import EngineFactory
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.schema import EVENTS
from logdrive.pipeline.report.page import render_report
from logdrive.pipeline.tables.check_files import check_file
from logdrive.pipeline.tables.failures import UnreadableFileError
from logdrive.pipeline.tables.files import AddedFile
from logdrive.pipeline.tables.join_files import join_files
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines, source_id

TEXT = lines("a", 0, 400)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Complete tables of two files of events: `TEXT` of one source, few lines of another one."""
    segment, directory = Segment(), tmp_path / "tables"
    send(segment, "a", TEXT)
    catch_up(directory, segment)
    send(segment, "b", lines("b", 0, 5))
    catch_up(directory, segment)
    return directory


def file_of(tables: Path, table: int = 0) -> Path:
    """Return the larger file of `events` (0) or `batches` (1)."""
    return max(map(Path, open_tables(str(tables))[table].files), key=lambda it: it.stat().st_size)


def page_data(path: Path, column: str) -> range:
    """Return where the last bytes of *column* are in the file at *path*: data, no page header."""
    group = pq.read_metadata(path).row_group(0)
    chunks = {one.path_in_schema: one for one in map(group.column, range(group.num_columns))}
    chunk = chunks[column]
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    end = int(begin + chunk.total_compressed_size)
    return range(min(int(chunk.data_page_offset) + 120, end - 4), end)


def flip(path: Path, at: int) -> None:
    changed = bytearray(path.read_bytes())
    changed[at] ^= 1
    path.write_bytes(changed)


def damage(path: Path, column: str = "message") -> str:
    """Change a byte of *column* in the file at *path*; return the path."""
    flip(path, page_data(path, column)[-1])
    return str(path)


def run(*arguments: str | Path, code: int | None) -> Result:
    """Run a command of `logdrive pipeline` that ends with *code*; 1 stands for any error, too."""
    done = CliRunner().invoke(cli, ["pipeline", *map(str, arguments)], standalone_mode=False)
    found = done.return_value if done.exception is None else 1
    assert found == code, done.output
    return done


def test_a_full_audit_names_a_file_whose_messages_can_not_be_read(tables: Path) -> None:
    path = damage(file_of(tables))
    done = run("audit", tables, "--full", code=1)
    (named,) = [line for line in done.stdout.splitlines() if line.startswith(path)]
    assert "can't be read: " in named
    assert f"`logdrive pipeline rebuild {tables} --table bronze --from URI`" in named
    assert "or take the file from a backup" in named
    last = done.stdout.splitlines()[-1]
    assert last.startswith("NOT COMPLETE: 5 lines, ")
    assert f", {len(TEXT):,} bytes lost, " in last
    assert "; 1 file of the tables can't be read: the rows there are counted as lost" in last
    shown = json.loads(run("audit", tables, "--full", "--json", code=1).stdout)
    assert [one["path"] for one in shown["unreadable"]] == [path]
    assert shown["complete"] is False


def test_a_full_audit_of_whole_files_says_complete(tables: Path) -> None:
    assert run("audit", tables, "--full", code=0).stdout.splitlines()[-1].startswith("complete: ")


def test_a3_both_engines_leave_out_the_rows_of_an_unreadable_file(
    tables: Path, engine: EngineFactory
) -> None:
    path = damage(file_of(tables))
    whole = partial(engine, full=True)  # type: ignore[call-arg]  # both have it
    verdict = audit(str(tables), whole, full=True)
    assert (verdict.complete, verdict.complete_but_for_ends) == (False, False)
    assert [one.path for one in verdict.unreadable] == [path]
    assert (verdict.rows, verdict.lost_bytes, verdict.lost_events) == (5, len(TEXT), 400)
    assert {fault.source for fault in verdict.faults} == {source_id("a")}


def test_files_that_are_gone_are_named_and_so_are_all_others(tables: Path) -> None:
    paths = sorted(open_tables(str(tables))[0].files)
    Path(paths[0]).unlink()
    damage(Path(paths[1]))
    shown = json.loads(run("audit", tables, "--full", "--json", code=1).stdout)
    assert [one["path"] for one in shown["unreadable"]] == paths


def test_a_file_that_the_user_may_not_read_is_not_counted_as_lost(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("logdrive.pipeline.tables.check_files.pq.ParquetFile", refuse)
    with pytest.raises(StorageError, match=r"\.parquet can't be read: Permission denied$"):
        audit(str(tables), full=True)


def test_what_a_task_of_spark_raises_names_the_file_still(tables: Path) -> None:
    path = damage(file_of(tables))
    with pytest.raises(UnreadableFileError) as raised:
        check_file(path)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (type(copied), str(copied)) == (UnreadableFileError, str(raised.value))


def test_the_report_lists_files_that_can_not_be_read(tables: Path) -> None:
    path = damage(file_of(tables))
    page = render_report(str(tables), audit(str(tables), partial(ArrowEngine, full=True)))
    assert "Files of the tables that can&#39;t be read" in page
    assert path in page


def test_a_full_audit_names_all_files_of_headers_that_can_not_be_read(tables: Path) -> None:
    paths = sorted(open_tables(str(tables))[1].files)
    for path in paths:
        damage(Path(path), "attributes")
    with pytest.raises(StorageError) as raised:
        audit(str(tables), full=True)
    assert [line.split(" can't be read")[0] for line in str(raised.value).splitlines()] == paths


@pytest.mark.parametrize("column", ["message", "start", "end", "batch"])
def test_each_byte_of_a_page_that_a_disk_changes_is_found(tables: Path, column: str) -> None:
    """Snappy and zstd do not see that, where the bytes still unpack."""
    path, random = file_of(tables), Random(3)
    check_file(str(path))
    whole = path.read_bytes()
    data = page_data(path, column)
    for at in random.sample(data, min(60, len(data))):
        flip(path, at)
        with pytest.raises(StorageError, match="can't be read"):
            check_file(str(path))
        path.write_bytes(whole)


def test_files_of_earlier_versions_have_no_checksums_and_are_read(tables: Path) -> None:
    path = file_of(tables)
    rows = pq.ParquetFile(path).read()
    pq.write_table(rows, path, store_schema=False, compression="none", use_dictionary=False)
    run("audit", tables, "--full", code=0)
    changed = bytearray(path.read_bytes())
    changed[page_data(path, "message")[-9]] = 0xFF  # no UTF-8
    path.write_bytes(changed)
    assert str(path) in run("audit", tables, "--full", code=1).stdout


def test_joined_files_do_not_get_checksums_of_changed_bytes(tables: Path) -> None:
    events = open_tables(str(tables))[0]
    path = damage(file_of(tables))
    files: list[AddedFile] = events.live_files()
    with pytest.raises(StorageError, match=f"^{path} can't be read"):
        join_files(events.path, EVENTS, files)


@pytest.mark.parametrize(
    "command",
    [
        ("cat", "{}", source_id("a")),
        ("silver", "{}", "--once"),
        ("audit", "{}", "--against", "{}.log", "--source", source_id("a")),
        ("erase", "{}", "--where", "message LIKE '%x%'", "--yes"),
        ("erase", "{}", "--where", "message LIKE '%x%'", "--dry-run"),
    ],
    ids=lambda command: " ".join((command[0], command[-1])),
)
def test_commands_name_the_file_of_bronze_that_can_not_be_read(
    tables: Path, command: tuple[str, ...]
) -> None:
    Path(f"{tables}.log").write_bytes(TEXT)
    path = file_of(tables)
    changed, data = bytearray(path.read_bytes()), page_data(path, "message")
    changed[data[0] : data[64]] = b"\xff" * 64  # no snappy, so that delta-rs sees it, too
    path.write_bytes(changed)
    done = run(*(part.format(tables) for part in command), code=1)
    assert isinstance(done.exception, StorageError)
    assert str(done.exception).startswith(f"{path} can't be read: ")
    assert f"`logdrive pipeline rebuild {tables} --table bronze --from URI`" in str(done.exception)


@pytest.mark.parametrize("command", [("cat", source_id("a")), ("silver", "--once")])
def test_messages_that_a_disk_has_changed_are_neither_printed_nor_parsed(
    tables: Path, command: tuple[str, str]
) -> None:
    path = damage(file_of(tables))
    done = run(command[0], tables, *command[1:], code=1)
    assert str(done.exception).startswith(f"{path} can't be read: ")


def test_replay_names_the_file_of_headers_that_can_not_be_read(tables: Path) -> None:
    path = damage(file_of(tables, 1), "received")
    to = "pravega://127.0.0.1:1/logs/again"
    done = run("replay", tables, "--to", to, "--dry-run", code=1)
    assert str(done.exception).startswith(f"{path} can't be read: ")


def test_a_condition_that_is_none_is_no_damaged_file(tables: Path) -> None:
    done = run("erase", tables, "--where", "nonsense(1)", "--dry-run", code=1)
    assert "Invalid value for --where" in done.exception.format_message()  # type: ignore[union-attr]


def test_the_remedy_for_silver_is_to_make_silver_anew(tables: Path) -> None:
    run("silver", tables, "--once", code=None)
    (path, *_) = (tables / "silver" / "text").rglob("*.parquet")
    shutil.copy(__file__, path)
    done = run("audit", tables, code=1)
    assert str(done.exception).startswith(f"{path} can't be read: ")
    assert f"`logdrive pipeline rebuild {tables} --table silver`" in str(done.exception)
