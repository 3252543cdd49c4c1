"""SIGKILL of a real process on a real disk: acknowledged appends are there, once."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.faults import POINTS
from logdrive.store.engine import Store
from logdrive.store.errors import StoreInUseError
from tests.logdrive.store.appender import LIMITS, SEGMENT, WRITERS, record

pytestmark = pytest.mark.process
STORE_POINTS = [point for point in POINTS if point.startswith("store.")]


def _start(directory: Path, count: int, fault: str = "") -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.logdrive.store.appender", str(directory), str(count)]
    environment = {**os.environ, "LOGDRIVE_FAULT": fault}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _acknowledged(output: str) -> dict[int, int]:
    """Return the highest acknowledged number of each writer."""
    told: dict[int, int] = {}
    for writer, number in re.findall(r"^(\d) (\d+)$", output, re.MULTILINE):
        told[int(writer)] = int(number)
    return told


def _check(directory: Path, told: dict[int, int]) -> None:
    """The segment has both writers' records in order from 1, at least the acknowledged ones."""

    async def main() -> None:
        executor = ThreadExecutor("sync")
        store = await Store.open(
            str(directory), disk=SystemDisk(), executor=executor, clock=SystemClock(), limits=LIMITS
        )
        try:
            info = store.info(SEGMENT)
            if info is None:
                assert not told
                return
            content, seen, at = store.read(SEGMENT, 0, info.length), dict.fromkeys(WRITERS, 0), 0
            while at < len(content):
                writer = WRITERS[content[at + 1] - ord("1")]
                seen[writer] += 1
                expected = record(writer, seen[writer])
                assert content[at : at + len(expected)] == expected
                at += len(expected)
            assert {w: max(0, store.attribute(SEGMENT, w)) for w in WRITERS} == seen
            assert all(seen[w] >= told.get(w.int, 0) for w in WRITERS)
        finally:
            await store.close()
            executor.close()

    asyncio.run(main())


@pytest.mark.parametrize("point", STORE_POINTS)
def test_killed_at_a_fault_point_it_keeps_what_it_acknowledged(point: str, tmp_path: Path) -> None:
    told: dict[int, int] = {}
    for passage in (1, 3, 2):
        child = _start(tmp_path, 1000, f"{point}:{passage}")
        output, errors = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL, errors
        told |= _acknowledged(output)
        _check(tmp_path, told)
    child = _start(tmp_path, 20)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    _check(tmp_path, told | _acknowledged(output))


def test_killed_at_random_moments_it_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    random, told = Random(3), dict[int, int]()
    for _ in range(8):
        child = _start(tmp_path, 1_000_000)
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(random.random() * 0.1)
        child.kill()
        told |= _acknowledged(first + child.communicate(timeout=60)[0])
    assert told
    _check(tmp_path, told)


def test_a_store_held_by_another_process_is_refused_by_its_path(tmp_path: Path) -> None:
    child = _start(tmp_path, 1_000_000)
    try:
        assert child.stdout is not None
        assert child.stdout.readline().startswith("recovered")
        with pytest.raises(StoreInUseError, match=str(tmp_path)):
            _check(tmp_path, {})
    finally:
        child.kill()
        child.communicate(timeout=60)
    _check(tmp_path, {})
