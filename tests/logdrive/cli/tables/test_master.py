"""`--master` and `[spark] master` as a user meets them, where Spark would not be started."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.errors import ConfigError, UnavailableError
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.storing import store


@pytest.fixture
def away() -> str:
    """The URL of a master that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"spark://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def segment() -> Segment:
    segment = Segment()
    send(segment, "a", lines("a", 0, 9))
    return segment


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--from", "file:///s#a/b", "--to", "t"),
        ("silver", "."),
        ("rebuild", ".", "--table", "silver"),
        ("audit", ".", "--engine", "spark"),
    ],
    ids=lambda value: value[0],
)
def test_a_malformed_master_is_refused_before_anything_is_read(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["pipeline", *arguments, "--master", "sparc://host:7077"])
    assert done.exit_code == 2
    said = " ".join(done.output.replace("│", " ").split())
    assert "Invalid value for '--master': 'sparc://host:7077'" in said
    assert "write spark://host:7077" in said


def test_a_malformed_master_of_the_configuration_is_refused_with_file_and_key(
    tmp_path: Path,
) -> None:
    config = tmp_path / "pipeline.toml"
    config.write_text(
        '[pipeline]\nfrom = "file:///s#a/b"\nto = "/t"\n[spark]\nmaster = "spark://host"\n'
    )
    with pytest.raises(ConfigError, match="the port is missing") as error:
        CliRunner().invoke(
            cli, ["pipeline", "run", "--config", str(config)], catch_exceptions=False
        )
    assert str(error.value).startswith(f'{config}: spark.master = "spark://host": ')


def test_a_run_whose_master_does_not_answer_says_so_at_its_start_and_reads_what_it_can(
    tmp_path: Path, segment: Segment, away: str
) -> None:
    uri, tables = store(tmp_path / "store", segment), str(tmp_path / "tables")
    done = CliRunner().invoke(
        cli, ["pipeline", "run", "--from", uri, "--to", tables, "--once", "--master", away]
    )
    assert done.exit_code == 0, done.output
    assert "9 events" in done.stdout
    (warning,) = (line for line in done.stderr.splitlines() if "no master" in line)
    assert all(part in warning for part in ("--master", away, "refused", "name another"))


@pytest.mark.parametrize("command", ["silver", "audit"])
def test_a_command_that_needs_its_master_at_once_ends_with_the_reason(
    tmp_path: Path, segment: Segment, away: str, command: str
) -> None:
    catch_up(tmp_path, segment)
    more = {"silver": ["--once"], "audit": ["--engine", "spark"]}[command]
    arguments = ["pipeline", command, str(tmp_path), *more, "--master", away]
    with pytest.raises(UnavailableError) as error:
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert f"--master = {away}: no master of Spark answers there" in str(error.value)
    assert str(error.value).endswith("start it, or name another")
