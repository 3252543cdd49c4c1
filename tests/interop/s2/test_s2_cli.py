"""S2's own command line against our store: what its users type, and what it then says."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import unavailable
from tests.interop.s2.suite import served_store
from tests.support.s2.cli_build import BINARY

pytestmark = pytest.mark.process

_COMMAND_SECONDS = 60


@dataclass(frozen=True)
class Cli:
    """The command line, with *home* as its home directory, for the store at *url*."""

    url: str
    home: Path

    def run(self, *arguments: str, text: str | None = None, token: str = "any") -> str:
        """Run it with *text* as its input; return what it printed. Raises AssertionError."""
        done = self.result(*arguments, text=text, token=token)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self, *arguments: str, text: str | None = None, token: str = "any") -> str:
        """Run it, and return what it says of its failure. Raises AssertionError if it has none."""
        done = self.result(*arguments, text=text, token=token)
        assert done.returncode == 1, done.stdout + done.stderr
        return " ".join(done.stderr.replace("│", " ").split())

    def result(
        self, *arguments: str, text: str | None, token: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run it with *text* as its input."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "NO_COLOR": "1",
            "S2_ACCESS_TOKEN": token,
            "S2_ACCOUNT_ENDPOINT": self.url,
            "S2_BASIN_ENDPOINT": self.url,
        }
        return subprocess.run(
            [str(BINARY), *arguments],
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """Returns the command line, for a store with an S2 face."""
    if not BINARY.exists():
        unavailable(f"no s2-cli: `make peers` builds {BINARY}")
    directory = tmp_path_factory.mktemp("s2-cli")
    with served_store(directory) as url:
        yield Cli(url, directory)


@pytest.fixture
def basin(cli: Cli, request: pytest.FixtureRequest) -> str:
    """Returns the name of a basin of the test's own, in which appends create streams."""
    name = "cli-" + str(request.node.name).replace("_", "-")[5:40].rstrip("-")
    cli.run("create-basin", name, "--create-stream-on-append")
    return name


def test_basins_are_created_listed_configured_and_deleted(cli: Cli) -> None:
    cli.run("create-basin", "of-basins-one", "--retention-policy", "1d")
    cli.run("create-basin", "of-basins-two")
    assert cli.run("list-basins", "--prefix", "of-").split() == ["of-basins-one", "of-basins-two"]
    assert "1day" in cli.run("get-basin-config", "of-basins-one")
    assert "3days" in cli.run("reconfigure-basin", "of-basins-one", "--retention-policy", "3d")
    difference = cli.run("diff", "of-basins-one", "of-basins-two", "-r", "basin", "-o", "json")
    assert json.loads(difference)["differences"] == [
        {"path": "default_stream_config.retention_policy", "left": "3d", "right": "7d"}
    ]
    cli.run("delete-basin", "of-basins-two")
    assert "of-basins-two" not in cli.run("ls").split()


def test_streams_are_created_listed_configured_and_deleted(cli: Cli, basin: str) -> None:
    stream = f"s2://{basin}/logs"
    cli.run("create-stream", stream, "--retention-policy", "2d")
    assert cli.run("list-streams", f"s2://{basin}").split() == [stream]
    assert "2days" in cli.run("get-stream-config", stream)
    assert "arrival" in cli.run("reconfigure-stream", stream, "--timestamping-mode", "arrival")
    assert cli.run("ls", basin).split()[0] == stream
    cli.run("delete-stream", stream)
    assert "stream_not_found" in cli.refusal("read", f"s2://{basin}/none", "--count", "1")


def test_lines_are_appended_and_read_in_every_format(cli: Cli, basin: str) -> None:
    stream = f"s2://{basin}/lines"
    cli.run("append", stream, text="one\ntwo\nthree\n")
    assert cli.run("check-tail", stream).startswith("3 @ ")
    assert cli.run("read", stream, "--seq-num", "0", "--count", "3") == "one\ntwo\nthree\n"
    assert cli.run("tail", stream, "-n", "2") == "two\nthree\n"
    record = '{"headers":[["level","warn"]],"body":"four"}\n'
    cli.run("append", stream, "--format", "json", text=record)
    read = json.loads(cli.run("read", stream, "--tail-offset", "1", "-n", "1", "--format", "json"))
    assert (read["seq_num"], read["headers"], read["body"]) == (3, [["level", "warn"]], "four")


def test_a_fence_refuses_others_and_a_trim_deletes(cli: Cli, basin: str) -> None:
    stream = f"s2://{basin}/fenced"
    cli.run("append", stream, text="one\ntwo\nthree\n")
    cli.run("fence", stream, "mine")
    assert "expected: mine" in cli.refusal("append", stream, "-f", "other", text="x\n")
    assert "sequence number" in cli.refusal("append", stream, "-f", "mine", "-m", "3", text="x\n")
    cli.run("append", stream, "-f", "mine", "-m", "4", text="four\n")
    cli.run("trim", stream, "2", "-f", "mine")
    assert cli.run("read", stream, "--tail-offset", "100", "--count", "9") == "three\nfour\n"


def test_an_access_token_is_held_to_its_scope_until_it_is_revoked(cli: Cli, basin: str) -> None:
    stream = f"s2://{basin}/logs"
    cli.run("append", stream, text="one\n")
    scope = ("--basins-exact", basin, "--streams-prefix", "lo", "--ops", "read,check_tail")
    token = cli.run("issue-access-token", "reader", *scope).strip()
    assert cli.run("list-access-tokens").split()[0] == "reader"
    assert cli.run("check-tail", stream, token=token).startswith("1 @ ")
    assert "permission_denied" in cli.refusal("append", stream, text="two\n", token=token)
    assert "permission_denied" in cli.refusal("check-tail", f"s2://{basin}/x", token=token)
    cli.run("revoke-access-token", "reader")
    assert "was revoked" in cli.refusal("check-tail", stream, token=token)


def test_metrics_and_locations_are_answered(cli: Cli, basin: str) -> None:
    stream = f"s2://{basin}/logs"
    cli.run("append", stream, text="one\n")
    times = ("--start-ago", "1h", "--end-ago", "0s")
    cli.run("get-account-metrics", "active-basins", *times)
    cli.run("get-basin-metrics", basin, "storage", *times)
    cli.run("get-stream-metrics", stream, "storage", *times)
    assert cli.run("list-locations") == cli.run("get-default-location")
    assert "there is no location" in cli.refusal("set-default-location", "elsewhere")


def test_a_specification_is_applied_once(cli: Cli, tmp_path: Path) -> None:
    specification = tmp_path / "specification.json"
    stream = {"name": "one", "config": {"retention_policy": "2d"}}
    config = {"create_stream_on_append": True}
    basins = [{"name": "of-applied", "config": config, "streams": [stream]}]
    specification.write_text(json.dumps({"basins": basins}))
    assert "+ stream of-applied/one" in cli.run("apply", "-f", str(specification), "--dry-run")
    assert "of-applied" not in cli.run("ls").split()
    cli.run("apply", "-f", str(specification))
    assert "2days" in cli.run("get-stream-config", "s2://of-applied/one")
    assert "+" not in cli.run("apply", "-f", str(specification), "--dry-run")


def test_its_benchmark_runs_to_the_end(cli: Cli, basin: str) -> None:
    cli.run("bench", basin, "-d", "1s", "-w", "1s", "-t", "1")
