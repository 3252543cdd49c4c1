"""`logdrive pipeline formats` says what silver would make of a file."""

import json
import os
from pathlib import Path

from click.testing import CliRunner, Result

from logdrive.cli.main import cli

GOOD = "2026-01-02 03:04:05,678 - shop.cart - INFO - hello"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", "formats", *arguments])


def test_each_file_has_its_format_and_the_lines_that_it_cannot_read(tmp_path: Path) -> None:
    app, other = tmp_path / "app.log", tmp_path / "other.log"
    app.write_text(f"{GOOD}\n" * 19 + "bad \x1b[31mline\n")
    other.write_text("once upon a time\n")
    shown = run(str(app), str(other)).output
    assert f"{app}: python, table application: reads 95.00 % of 20 lines" in shown
    assert "  1 line: no python line" in shown
    assert r"  no python line: bad \x1b[31mline" in shown
    assert "  logger: shop.cart" in shown
    assert f"{other}: no format is recognized: its 1 lines go to the table text" in shown


def test_a_format_and_a_zone_may_be_given(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text(f"{GOOD}\n")
    done = run(str(file), "--format", "python", "--zone", "Europe/Berlin", "--json")
    (survey,) = json.loads(done.output)["files"].values()
    assert survey["read"] == survey["lines"] == 1
    assert survey["first"] == "2026-01-02T02:04:05.678000+00:00"


def test_of_a_long_file_only_whole_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text(f"{GOOD}\n" * 40_000)
    done = run(str(file), "--mib", "1", "--json")
    (survey,) = json.loads(done.output)["files"].values()
    assert survey["read"] == survey["lines"] == (1 << 20) // (len(GOOD) + 1)


def test_lines_may_come_from_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, f"{GOOD}\n".encode())
    os.close(writing)
    try:
        assert "reads 100.00 % of 1 lines" in run(f"/dev/fd/{reading}").output
    finally:
        os.close(reading)


def test_an_empty_file_has_no_format(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.touch()
    assert "no format is recognized" in run(str(file)).output
    assert "reads 100.00 % of 0 lines" in run(str(file), "--format", "json").output


def test_a_format_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.touch()
    done = run(str(file), "--format", "nope")
    assert done.exit_code == 2
    assert "no such format: 'nope'; there are access, " in done.output
