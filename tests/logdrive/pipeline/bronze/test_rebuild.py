"""`pipeline cat` finds the source that a person means, and lists what could be meant where that is
not one.
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from logdrive.cli.tables.cat import cat
from logdrive.model import records
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.pipeline.bronze import rebuild
from logdrive.pipeline.bronze.rebuild import find_source, source_pieces
from tests.logdrive.pipeline.filling import bronze, catch_up
from tests.logdrive.pipeline.segments import Segment, file_records, lines, source_id


def named(segment: Segment, source: str, path: str, start: int = 0) -> int:
    """Add two lines of *source*, shipped under the name *path*; return where they end."""
    data = lines(source, start, 2)
    rows, count = file_records(data, start)
    segment.data_batch(
        source, start, start + len(data), rows, count, attributes={"host": "web-1", "path": path}
    )
    return start + len(data)


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Tables with two lives of app.log, the first renamed meanwhile, and one of other.log."""
    segment = Segment()
    at = named(segment, "old", "/var/log/app.log")
    named(segment, "new", "/var/log/app.log")
    named(segment, "old", "/var/log/app.log.1", at)
    named(segment, "other", "/var/log/other.log")
    segment.foreign("beats", [b'{"message":"x"}'])
    catch_up(tmp_path, segment)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (source_id("old"), "old"),
        (source_id("old")[:8], "old"),
        (source_id("old")[:8].upper(), "old"),
        (source_id("old/origin"), "old"),
        (source_id("old/origin")[:8].upper(), "old"),
        ("/var/log/other.log", "other"),
        ("/var/log/app.log.1", "old"),
        ("/var/log/app.log", "new"),
    ],
)
def test_a_source_is_found_by_its_id_its_origin_the_beginning_of_these_or_its_path(
    directory: str, wanted: str, expected: str
) -> None:
    assert find_source(directory, wanted) == source_id(expected)


@pytest.mark.parametrize("name", [os.fsdecode(b"/var/log/\xff.log"), "/var/log/\ufffd.log"])
def test_a_path_that_is_no_utf8_is_found_by_its_bytes_and_as_it_is_shown(
    tmp_path: Path, name: str
) -> None:
    """Agents send U+FFFD for such bytes; Python has a surrogate for each on a command line."""
    segment = Segment()
    end = named(segment, "a", "/var/log/\ufffd.log")
    catch_up(tmp_path, segment)
    printed = CliRunner().invoke(cat, [str(tmp_path), name], standalone_mode=False)
    assert (printed.return_value, len(printed.stdout_bytes)) == (0, end), printed.exception


def test_what_means_several_is_refused_with_a_list_of_them(tmp_path: Path) -> None:
    segment = Segment()
    for source in ("a", "b"):
        named(segment, source, "/var/log/app.log")
    named(segment, "c", "/var/log/other.log")
    catch_up(tmp_path, segment)
    with pytest.raises(ValueError, match=r"'/var/log/app\.log' matches 2 sources") as refused:
        find_source(str(tmp_path), "/var/log/app.log")
    listed = str(refused.value).splitlines()[1:]
    assert sorted(line.split()[0] for line in listed) == sorted((source_id("a"), source_id("b")))
    assert all("/var/log/app.log of web-1, 24 bytes, last received 20" in line for line in listed)


def test_an_origin_of_several_sources_is_refused_with_a_list_of_them(tmp_path: Path) -> None:
    """One file that two clients sent is two sources."""
    segment, origin = Segment(), source_id("file")
    for source in ("a", "b"):
        data = lines(source, 0, 2)
        rows, count = file_records(data)
        segment.data_batch(source, 0, len(data), rows, count, origin=origin)
    named(segment, "c", "/var/log/other.log")
    catch_up(tmp_path, segment)
    with pytest.raises(ValueError, match="matches 2 sources") as refused:
        find_source(str(tmp_path), origin)
    listed = str(refused.value).splitlines()[1:]
    assert sorted(line.split()[0] for line in listed) == sorted((source_id("a"), source_id("b")))


@pytest.mark.parametrize("wanted", ["app.log", "", source_id("beats")])
def test_what_means_none_is_refused_with_a_list_of_all(directory: str, wanted: str) -> None:
    """A foreign peer has no file: its lines have no positions."""
    with pytest.raises(ValueError, match="matches no source") as refused:
        find_source(directory, wanted)
    listed = str(refused.value)
    assert all(source_id(name) in listed for name in ("old", "new", "other"))


def test_of_a_source_of_which_all_was_lost_nothing_is_printed_and_that_is_said(
    tmp_path: Path,
) -> None:
    segment = Segment()
    segment.gap("a", 0, 70, "removed")
    segment.ended("a", 70)
    catch_up(tmp_path, segment)
    printed = CliRunner().invoke(cat, [str(tmp_path), source_id("a")], standalone_mode=False)
    assert (printed.return_value, printed.stdout_bytes) == (1, b""), printed.exception
    assert "70 bytes are lost, the first at 0" in printed.stderr


def test_names_of_files_and_hosts_are_escaped_in_the_list(tmp_path: Path) -> None:
    """A name never looks like another line of the list, nor reaches the terminal as it is."""
    segment = Segment()
    named(segment, "a", "/var/log/a\n  b\x1b[2J.log")
    catch_up(tmp_path, segment)
    printed = CliRunner().invoke(cat, [str(tmp_path), "/no\nwhere"], standalone_mode=False)
    _, listed = str(printed.exception).splitlines()
    assert listed.startswith(f"  {source_id('a')}  /var/log/a\\n  b\\x1b[2J.log of web-1, 24 bytes")


def test_tables_without_files_say_so(tmp_path: Path) -> None:
    with bronze(tmp_path):
        pass
    with pytest.raises(ValueError, match="no file has been read"):
        find_source(str(tmp_path), "/var/log/app.log")


def damaged(segment: Segment, source: str, start: int) -> int:
    """Add a pack of 5 lines whose header says 6; return where it ends."""
    data = lines(source, 0, 5)
    pack = make_pack(PackForm.TEXT, data, PackCodec.DEFLATE)
    segment.pack(source, start, start + len(data), pack, 6)
    return start + len(data)


def test_r8_what_is_quarantined_is_left_out_and_named_with_its_reason(tmp_path: Path) -> None:
    segment, data = Segment(), lines("a", 0, 5)
    at = segment.packed("a", data)
    behind = damaged(segment, "a", at)
    segment.packed("a", data, behind)
    segment.data_batch("a", 3 * at, 4 * at, [b"{"], 1)
    damaged(segment, "b", 0)
    segment.packed("c", data)
    catch_up(tmp_path, segment)

    printed = CliRunner().invoke(cat, [str(tmp_path), source_id("a")], standalone_mode=False)
    assert printed.return_value == 1
    assert printed.stdout_bytes == 2 * data
    pack, record = printed.stderr.splitlines()
    assert pack.startswith(
        f"logdrive: /var/log/a.log, bytes {at} to {behind}: a pack can't be opened: "
    )
    assert "5 events" in pack
    assert record == (
        f"logdrive: /var/log/a.log, bytes {3 * at} to {4 * at}: a record is not_json; its lines "
        "are left out"
    )

    printed = CliRunner().invoke(cat, [str(tmp_path), source_id("b")], standalone_mode=False)
    assert (printed.return_value, printed.stdout_bytes) == (1, b"")
    assert f"/var/log/b.log, bytes 0 to {at}: a pack can't be opened: " in printed.stderr
    printed = CliRunner().invoke(cat, [str(tmp_path), source_id("c")], standalone_mode=False)
    assert (printed.return_value, printed.stdout_bytes, printed.stderr) == (0, data, "")


def test_what_was_left_out_or_lost_is_told_and_ends_with_1(tmp_path: Path) -> None:
    """An incomplete file never passes for a whole one (rule A4)."""
    segment, text = Segment(), lines("a", 0, 10)
    size = len(text) // 10
    line = [text[at : at + size] for at in range(0, len(text), size)]
    first, _ = file_records(line[0])
    segment.data_batch("a", 0, size, first, 1)
    segment.gap("a", size, 3 * size, "skipped")
    block = records.block_record(3 * size, 5 * size, 1, line[4].decode(), [-size, size])
    segment.data_batch("a", 3 * size, 5 * size, [block], 1, skipped=size)
    segment.gap("a", 5 * size, 6 * size, "not_wanted")
    segment.gap("b", 0, size, "removed")
    named(segment, "b", "/var/log/b.log", size)
    dropped = records.block_record(0, size, 0, "", [-size])
    segment.data_batch("c", 0, size, [dropped], 0, skipped=size)
    catch_up(tmp_path, segment)

    printed = CliRunner().invoke(cat, [str(tmp_path), source_id("a")], standalone_mode=False)
    assert (printed.return_value, printed.stdout_bytes) == (1, line[0] + line[4])
    assert printed.stderr == (
        f"logdrive: {4 * size} bytes were left out by rules of the agent, or skipped or sent "
        f"again by an operator, the first at {size}\n"
    )
    printed = CliRunner().invoke(cat, [str(tmp_path), source_id("b")], standalone_mode=False)
    assert (printed.return_value, printed.stdout_bytes) == (1, lines("b", size, 2))
    assert printed.stderr == (
        f"logdrive: {size} bytes are lost, the first at 0: see `logdrive pipeline audit`\n"
    )
    printed = CliRunner().invoke(cat, [str(tmp_path), source_id("c")], standalone_mode=False)
    assert (printed.return_value, printed.stdout_bytes) == (1, b"")
    assert printed.stderr.startswith(f"logdrive: {size} bytes were left out by rules")


def test_what_a_run_adds_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment, data = Segment(), lines("a", 0, 5)
    at = segment.packed("a", data)
    catch_up(tmp_path, segment)

    def read_then_fill(directory: str, source: str) -> list[tuple[int, bytes]]:
        pieces = list(source_pieces(directory, source))
        segment.packed("a", data, at)
        catch_up(tmp_path, segment)
        return pieces

    monkeypatch.setattr(rebuild, "source_pieces", read_then_fill)
    printed = CliRunner().invoke(cat, [str(tmp_path), source_id("a")], standalone_mode=False)
    assert (printed.return_value, printed.stdout_bytes, printed.stderr) == (0, data, "")
