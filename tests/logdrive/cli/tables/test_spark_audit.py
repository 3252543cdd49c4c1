"""Audits by Spark where it, or a worker of it, does not start: tried again, and told with a log."""

import os
import shlex
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.cli.tables.spark_audit import open_spark_log
from logdrive.pipeline.spark.failures import SparkStartError
from logdrive.pipeline.spark.java import find_java_home
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.test_run import DIES_AT_FIRST, command

JAVA = """\
#!/bin/sh
case "$*" in
*-version*) echo 'openjdk version "21.0.1"' >&2 ;;
*) if {fails}; then echo "no threads left" >&2; exit 1; fi; exec {java} "$@" ;;
esac
"""


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Complete tables of one source."""
    segment = Segment()
    send(segment, "a", lines("a", 0, 9))
    catch_up(tmp_path / "tables", segment)
    return tmp_path / "tables"


def java_home(directory: Path, *, fails: str, java: Path = Path("false")) -> str:
    """Return a JAVA_HOME whose *java* does not start where the command *fails* succeeds."""
    program = directory / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(JAVA.format(fails=fails, java=shlex.quote(str(java))))
    program.chmod(0o755)
    return str(directory / "java")


@pytest.mark.spark
@pytest.mark.process
def test_a_spark_that_does_not_start_at_first_and_workers_that_do_not_are_started_again(
    tmp_path: Path, tables: Path
) -> None:
    once = f"mkdir {shlex.quote(str(tmp_path / 'tried'))} 2>/dev/null"
    home = java_home(tmp_path, fails=once, java=find_java_home(os.environ) / "bin" / "java")
    (tmp_path / "sitecustomize.py").write_text(DIES_AT_FIRST.format(mark=tmp_path / "mark"))
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    arguments = ("audit", str(tables), "--engine", "spark", "--full")
    process = command(*arguments, JAVA_HOME=home, PYTHONPATH=path)
    out, err = (text.decode() for text in process.communicate(timeout=240))
    assert process.returncode == 0, err
    assert "complete: 9 lines" in out
    log = tables / "spark.log"
    assert f"; see {log}; trying once more" in err
    assert "a Python worker of Spark's did not start (" in err
    assert f"; see {log} for all of it; trying once more" in err
    assert "no threads left" in log.read_text()


@pytest.mark.parametrize("name", ["audit", "report"])
def test_a_spark_that_does_not_start_is_told_with_the_log_that_says_why(
    tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, fails="true"))
    more = ["--out", str(tmp_path / "report.html")] if name == "report" else []
    with pytest.raises(SparkStartError) as error:
        CliRunner().invoke(
            cli,
            ["pipeline", name, str(tables), "--engine", "spark", *more],
            catch_exceptions=False,
        )
    assert str(error.value).startswith("Spark did not start: ")
    assert str(error.value).endswith(f"; see {tables / 'spark.log'}")
    assert (tables / "spark.log").read_text().count("no threads left") == 2


def test_where_the_tables_are_only_read_the_log_is_a_temporary_file_that_stays_if_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "tables" / "spark.log").mkdir(parents=True)  # can't be written, by root either
    with open_spark_log(str(tmp_path / "tables")) as unneeded:
        assert unneeded.path.parent == tmp_path
        assert unneeded.path.is_file()
    assert not unneeded.path.exists()
    with open_spark_log(str(tmp_path / "tables")) as tried_again:
        tried_again.is_named = True
    assert tried_again.path.is_file()
    with (
        pytest.raises(SparkStartError),
        open_spark_log(str(tmp_path / "tables")) as named,
    ):
        raise SparkStartError(f"see {named.path}")
    assert named.path.is_file()
