"""Commands without --config take the file that the units take."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from logdrive.cli.config_files import AGENT_CONFIG, RECEIVER_CONFIG, STORE_CONFIG
from logdrive.cli.main import cli

UNITS = Path(__file__).parents[3] / "systemd"


@pytest.mark.parametrize(
    ("unit", "command", "path"),
    [
        ("logdrive-agent", "agent run", AGENT_CONFIG),
        ("logdrive-receiver", "receiver run", RECEIVER_CONFIG),
    ],
)
def test_the_default_is_what_the_unit_names(unit: str, command: str, path: str) -> None:
    started = f"logdrive {command} --config {path}\n"
    assert started in (UNITS / f"{unit}.service").read_text()


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (["agent", "run"], AGENT_CONFIG),
        (["agent", "check"], AGENT_CONFIG),
        (["receiver", "run"], RECEIVER_CONFIG),
        (["receiver", "check"], RECEIVER_CONFIG),
        (["store", "run"], STORE_CONFIG),
    ],
)
def test_the_default_is_shown(command: list[str], path: str) -> None:
    said = CliRunner().invoke(cli, [*command, "--help"]).output
    assert f"[default: {path}]" in " ".join(said.split())
