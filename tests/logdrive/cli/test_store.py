"""`logdrive store verify` and `store readers`: exit codes, lines, objects."""

import asyncio
import subprocess
from pathlib import Path

import orjson
import pytest

from logdrive.clock import SystemClock
from logdrive.disk import SystemDisk
from logdrive.executor import ThreadExecutor
from logdrive.store.engine import Store
from tests.logdrive.store.harness import SEGMENT, submit
from tests.support.installation import command


def _logdrive(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it in a process of its own: it sets up logging for all of one."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a store with two batches."""

    async def fill() -> None:
        executor = ThreadExecutor("sync")
        store = await Store.open(str(tmp_path), disk=SystemDisk(), executor=executor, clock=SystemClock())
        running = asyncio.create_task(store.run(asyncio.Event()))
        await store.create(SEGMENT)
        await submit(store, b"first", 1)
        await submit(store, b"second", 2)
        await store.close()
        await running
        executor.close()

    asyncio.run(fill())
    return tmp_path


def test_a_whole_store_exits_with_0(directory: Path) -> None:
    for place in (str(directory), f"file://{directory}#logs/app"):
        result = _logdrive("store", "verify", place)
        assert result.returncode == 0
        assert "every byte is as it was written (1 files" in result.stdout
        found = orjson.loads(_logdrive("store", "verify", place, "--json").stdout)
        assert (found["intact"], found["damages"], found["entries"], found["segments"]) == (True, [], 3, 1)


def test_damage_exits_with_1_and_is_named_by_file_and_offset(directory: Path) -> None:
    log = next(directory.glob("log-*"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    result = _logdrive("store", "verify", str(directory))
    assert result.returncode == 1
    offset = len(data) - len(b"second") - 88
    assert f"{log} is damaged at offset {offset}: " in result.stdout
    assert "1 damaged places" in result.stdout
    found = orjson.loads(_logdrive("store", "verify", str(directory), "--json").stdout)
    assert [(damage["file"], damage["offset"]) for damage in found["damages"]] == [(str(log), offset)]


def test_a_stream_over_the_network_and_what_is_no_store_are_refused(tmp_path: Path) -> None:
    assert _logdrive("store", "verify", "pravega://localhost:6000/logs/app").returncode == 2
    assert _logdrive("store", "verify", str(tmp_path)).returncode == 1


def test_a_readers_position_is_shown_set_to_the_end_and_forgotten(directory: Path) -> None:
    uri = f"file://{directory}#logs/app"

    def told(*options: str) -> list[tuple[int | None, int]]:
        result = _logdrive("store", "readers", uri, "pipeline", "--json", *options)
        assert result.returncode == 0, result.stderr
        return [(row["position"], row["behind"]) for row in orjson.loads(result.stdout)["segments"]]

    assert told() == [(None, 11)]
    assert told("--at-end") == told() == [(11, 0)]
    assert told("--forget") == [(None, 11)]
    assert _logdrive("store", "readers", uri, "pipeline", "--at-end", "--forget").returncode == 2
