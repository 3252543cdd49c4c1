"""SIGKILL of what fills silver, at each point and at random: each row of bronze once afterwards."""

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from logdrive.host import faults
from logdrive.pipeline.silver.balance import silver_balance
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import bronze_rows, fill, grow, silver_rows
from tests.support.installation import command

pytestmark = pytest.mark.process
POINTS = [point for point in faults.POINTS if point.startswith("pipeline.silver.")]


def begin(directory: Path, fault: str = "") -> subprocess.Popen[bytes]:
    call = command("pipeline", "silver", str(directory), "--once")
    return subprocess.Popen(
        call, env={**os.environ, "LOGDRIVE_FAULT": fault}, stderr=subprocess.PIPE
    )


def judge(directory: Path) -> None:
    assert silver_rows(directory) == bronze_rows(directory)
    balance = silver_balance(str(directory))
    assert balance is not None
    assert balance.adds_up
    assert balance.waiting == 0


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_a_fault_point_loses_and_doubles_nothing(tmp_path: Path, point: str) -> None:
    segment = Segment()
    grow(tmp_path, segment, 0)
    fill(tmp_path)
    grow(tmp_path, segment, 1)
    process = begin(tmp_path, point)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -9, f"{point} was never reached: {said!r}"
    grow(tmp_path, segment, 2)
    fill(tmp_path)
    judge(tmp_path)


def test_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    pick, segment = random.Random(3), Segment()
    grow(tmp_path, segment, 0)
    started = time.monotonic()
    assert begin(tmp_path).wait(60) == 0
    usual = time.monotonic() - started
    for part in range(1, 4):
        grow(tmp_path, segment, part)
        process = begin(tmp_path)
        # most of the time goes into the start: kill behind it
        time.sleep(usual * pick.uniform(0.5, 1.1))
        process.kill()
        process.communicate()
    fill(tmp_path)
    judge(tmp_path)
