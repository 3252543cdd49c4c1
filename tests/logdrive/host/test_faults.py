"""Fault points are inert unless armed, and then kill exactly there."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
from logdrive.host import faults
for passage in range(3):
    faults.reach("store.commit.before_sync")
    faults.reach("agent.checkpoint.before_rename")
    print(passage, flush=True)
"""


def _run(setting: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LOGDRIVE_FAULT": setting}
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("setting", "printed", "code"),
    [
        ("", "0\n1\n2\n", 0),
        ("receiver.ack.before_send", "0\n1\n2\n", 0),
        ("agent.checkpoint.before_rename", "", -9),
        ("agent.checkpoint.before_rename:3", "0\n1\n", -9),
    ],
)
def test_only_the_armed_point_kills_at_the_passage_named(
    setting: str, printed: str, code: int
) -> None:
    done = _run(setting)
    assert (done.stdout, done.returncode) == (printed, code)


def test_a_point_that_does_not_exist_is_refused_by_name() -> None:
    done = _run("agent.checkpoint.befor_rename")
    assert done.returncode == 1
    assert "no such fault point" in done.stderr
