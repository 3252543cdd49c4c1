"""`audit --against` compares a file with its rows byte for byte."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logdrive.cli.main import cli
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.model import records
from logdrive.pipeline.audit.against import ComparedFile, Comparison, compare_file
from logdrive.pipeline.erase import erase_rows
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, file_records, lines, source_id

TEXT = lines("a", 0, 40) + b"no UTF-8: \xff\r\n" + b"\n" + b"no line end"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables that have `TEXT` in two batches, and lines of another source between them."""
    segment, half = Segment(), TEXT.index(b"\n", 200) + 1
    at = send(segment, "a", TEXT[:half])
    send(segment, "b", lines("b", 0, 5))
    send(segment, "a", TEXT[half:], at)
    catch_up(tmp_path / "tables", segment)
    return tmp_path / "tables"


def compared(tables: Path, data: bytes) -> Comparison:
    file = tables.parent / "a.log"
    file.write_bytes(data)
    opened = SystemDisk().open(str(file))
    try:
        source = ComparedFile(str(file), source_id("a"), len(data), opened)
        return compare_file(str(tables), source)
    finally:
        opened.close()


def test_a_file_that_is_in_the_tables_is_the_same(tables: Path) -> None:
    found = compared(tables, TEXT)
    assert (found.same, found.bytes, found.left_out) == (True, len(TEXT), 0)


@pytest.mark.parametrize("at", [0, 7, 250, TEXT.index(b"\xff"), TEXT.index(b"\r"), len(TEXT) - 1])
def test_the_first_byte_that_differs_is_named(tables: Path, at: int) -> None:
    data = bytearray(TEXT)
    data[at] ^= 1
    data[-1] ^= 1 if at < len(TEXT) - 1 else 0
    found = compared(tables, bytes(data))
    assert (found.same, found.different, found.missing, found.beyond) == (False, at, [], 0)


def test_what_the_file_has_more_is_missing_and_what_it_has_less_is_beyond(tables: Path) -> None:
    assert compared(tables, TEXT + b"new\n").missing == [(len(TEXT), len(TEXT) + 4)]
    shorter = compared(tables, TEXT[:-5])
    assert (shorter.same, shorter.different, shorter.missing, shorter.beyond) == (
        False,
        None,
        [],
        5,
    )
    assert compared(tables, b"").beyond == len(TEXT)


def test_holes_are_missing_but_for_what_was_left_out_on_purpose(tmp_path: Path) -> None:
    segment, text = Segment(), lines("a", 0, 10)
    size = len(text) // 10
    segment.gap("a", 0, size, "not_wanted")
    send(segment, "a", text[size : 3 * size], size)
    segment.gap("a", 3 * size, 4 * size, "removed")
    records_of, count = file_records(text[4 * size : 5 * size], 4 * size)
    segment.data_batch("a", 4 * size, 5 * size, records_of, count)
    kept = text[6 * size : 7 * size].decode()
    block = records.block_record(5 * size, 7 * size, 1, kept, [-size, size])
    segment.data_batch("a", 5 * size, 7 * size, [block], 1, skipped=size)
    catch_up(tmp_path / "tables", segment)
    found = compared(tmp_path / "tables", text)
    assert found.missing == [(3 * size, 4 * size), (7 * size, 10 * size)]
    assert (found.different, found.left_out) == (None, 2 * size)


def test_a_row_that_is_not_the_bytes_of_its_file_differs_where_it_begins(tmp_path: Path) -> None:
    segment = Segment()
    at = send(segment, "a", b"one\n")
    segment.data_batch("a", at, 30, [records.lean_record(at, 30, "redacted")], 1)
    catch_up(tmp_path / "tables", segment)
    assert compared(tmp_path / "tables", b"one\n" + b"x" * 26).different == at


def test_what_was_redacted_is_not_compared_and_parts_are_compared_where_they_are(
    tmp_path: Path,
) -> None:
    segment, text = Segment(), b"one\nsecret\nA\nB\nC\n"
    flags = {"flags": [records.REDACTED]}
    rows = [
        records.lean_record(0, 4, "one"),
        records.lean_record(4, 11, "***", log=flags),
        # the lines A and C are one event, and B has its place behind them
        records.lean_record(11, 15, "A\nC", log={"parts": [[11, 13], [15, 17]]}),
        records.lean_record(15, 17, "B", log={"parts": [[13, 15]]}),
    ]
    segment.data_batch("a", 0, 17, rows, 4)
    catch_up(tmp_path / "tables", segment)
    found = compared(tmp_path / "tables", text)
    assert (found.same, found.left_out, found.missing, found.beyond) == (True, 7, [], 0)
    found = compared(tmp_path / "tables", text.replace(b"B", b"x"))
    assert (found.same, found.different) == (False, 13)
    assert compared(tmp_path / "tables", text[:-2]).beyond == 2


def audited(tables: Path, *arguments: str) -> Result:
    command = ["pipeline", "audit", str(tables), *arguments]
    return CliRunner().invoke(cli, command, standalone_mode=False)


def test_the_command_says_what_differs_and_ends_with_1(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(TEXT)
    arguments = ("--against", str(file), "--source", source_id("a")[:8])
    done = audited(tables, *arguments)
    assert done.return_value == 0, done.output
    assert f"{file}: its {len(TEXT):,} bytes are in the tables as they are" in done.stdout
    file.write_bytes(b"x" + TEXT[1:-5])
    done = audited(tables, *arguments)
    assert done.return_value == 1
    assert done.stdout.splitlines()[:3] == [
        f"{file}: compared with the source {source_id('a')}",
        f"{file}: byte 0 is the first that differs in the tables",
        f"{file}: the tables have 5 bytes behind its end",
    ]
    assert done.stdout.splitlines()[-1].startswith("complete: ")
    (printed,) = json.loads(audited(tables, *arguments, "--json").stdout)["against"]
    assert (printed["same"], printed["different"], printed["missing"]) == (False, 0, [])


@pytest.mark.parametrize("data", [b"", b"something else\n"], ids=["empty", "of no source"])
def test_a_file_that_no_source_is_like_needs_one(tables: Path, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.log").write_bytes(data)
    done = audited(tables, "--against", str(tmp_path / "x.log"))
    assert "matches no source" in str(done.exception)
    assert "give --source ID, with one --against FILE at a time" in str(done.exception)
    refused = audited(tables, "--source", "x")
    assert "give --source ID with one --against FILE" in str(refused.exception)


def test_a_rotated_file_is_compared_with_the_source_that_begins_as_it_does(
    tables: Path, tmp_path: Path
) -> None:
    file = tmp_path / "app.log.7"
    file.write_bytes(TEXT)
    done = audited(tables, "--against", str(file))
    assert done.return_value == 0, done.exception
    assert f"(source {source_id('a')})" in done.stdout
    file.write_bytes(TEXT[:-1])
    done = audited(tables, "--against", str(file))
    assert done.return_value == 1
    assert f"{file}: compared with the source {source_id('a')}" in done.stdout
    assert f"{file}: the tables have 1 bytes behind its end" in done.stdout


def test_of_sources_that_begin_alike_a_file_is_the_one_with_the_same_bytes(tmp_path: Path) -> None:
    """As files with a header line do."""
    segment = Segment()
    for source, count in (("a", 3), ("b", 7), ("c", 5)):
        send(segment, source, lines("x", 0, count))
    catch_up(tmp_path / "tables", segment)
    file = tmp_path / "x.csv"
    file.write_bytes(lines("x", 0, 7))
    done = audited(tmp_path / "tables", "--against", str(file))
    assert done.return_value == 0, done.exception
    assert f"(source {source_id('b')})" in done.stdout

    file.write_bytes(lines("x", 0, 6))
    refused = str(audited(tmp_path / "tables", "--against", str(file)).exception)
    assert "may be any of 3 sources, which begin as it does: give --source ID" in refused
    assert all(source_id(source) in refused for source in "abc")


@pytest.mark.parametrize("name", ["app.log", "app\udcff.log"])
def test_a_file_is_found_by_its_path(tmp_path: Path, name: str) -> None:
    """Also where that is not UTF-8: agents send U+FFFD for such bytes."""
    file, segment = tmp_path / name, Segment()
    shown = str(file).replace("\udcff", "\ufffd")
    file.write_bytes(TEXT)
    records_of, count = file_records(TEXT)
    segment.data_batch(
        "a",
        0,
        len(TEXT),
        records_of,
        count,
        attributes={"host": "web-1", "path": shown},
    )
    catch_up(tmp_path / "tables", segment)
    arguments = ("--against", str(file))
    assert audited(tmp_path / "tables", *arguments).return_value == 0
    assert audited(tmp_path / "tables", *arguments, "--source", str(file)).return_value == 0
    (printed,) = json.loads(audited(tmp_path / "tables", *arguments, "--json").stdout)["against"]
    assert (printed["file"], printed["same"]) == (shown, True)


def test_what_was_erased_is_not_missing(tables: Path) -> None:
    where = "message LIKE '%line 3 %'"
    erase_rows(str(tables), where, by="ada", why=None, clock=SystemClock(), disk=SystemDisk())
    found = compared(tables, TEXT)
    assert (found.same, found.left_out) == (True, len("a line 3 \u00e4\n".encode()))
    assert compared(tables, TEXT + b"x").missing == [(len(TEXT), len(TEXT) + 1)]
