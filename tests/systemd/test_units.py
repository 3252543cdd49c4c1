"""The systemd units that are shipped: systemd has nothing to say against them, and what they start
exists.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from logdrive.cli.main import USAGE, cli
from tests.conftest import need_program

UNITS = sorted((Path(__file__).parents[2] / "systemd").glob("*.service"))
_PROGRAM = "/opt/logdrive/bin/logdrive"


def test_there_is_a_unit_for_each_program_of_a_host() -> None:
    assert [unit.name for unit in UNITS] == [
        "logdrive-agent.service",
        "logdrive-pipeline.service",
        "logdrive-receiver.service",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_every_word_of_it(unit: Path, tmp_path: Path) -> None:
    need_program("systemd-analyze")
    for each in UNITS:  # one wants another
        (tmp_path / each.name).write_text(each.read_text().replace(_PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / unit.name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # words that it does not know are only warned of
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_agent_may_do_little_more_than_read() -> None:
    need_program("systemd-analyze")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=19", str(UNITS[0])],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # in tenths: the exposure is below 2.0
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_may_pass_is_tried_again_for_ever_and_a_mistake_in_the_configuration_is_not(
    unit: Path,
) -> None:
    lines = unit.read_text().splitlines()
    assert {"Restart=always", "StartLimitIntervalSec=0"} <= set(lines)
    assert (f"RestartPreventExitStatus={USAGE}" in lines) == (unit.stem != "logdrive-pipeline"), (
        "its stream may still be to come"
    )


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_it_starts_is_a_command_with_these_options(unit: Path) -> None:
    (started,) = (
        line.removeprefix("ExecStart=")
        for line in unit.read_text().splitlines()
        if line.startswith("ExecStart=")
    )
    program, group, command, option, path = started.split()
    told = CliRunner().invoke(cli, [group, command, "--help"]).output
    assert program == _PROGRAM
    assert option in told
    assert path == f"/etc/logdrive/{group}.toml"
    assert (UNITS[0].parents[1] / "config" / f"{group}.toml").exists()
