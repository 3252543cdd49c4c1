"""CPU and memory of an agent that follows many idle files, and of its starts.

One run: a receiver with a new store, and an agent on new files of three lines each, until all are
acknowledged. The agent is then left alone for a while before its CPU is counted over the next half
minute. At last it is started again, with its checkpoint.
"""

import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from agent.sources.checkpoint.file import Checkpoint
from bench.commands import LOGDRIVE, receiver_config
from bench.measure import Benchmark, Sample, Setting
from bench.processes import (
    BenchmarkError,
    Child,
    demand_success,
    family,
    free_port,
    wait_for_listener,
)
from logdrive.model.numbers import position_of

FILES: Final = 10_000
_LINES: Final = 3
_SETTLING_SECONDS, _COUNTED_SECONDS = 150.0, 30.0
"""So that files have rested for a minute and those beyond max_open_files are closed, and the agent
for one.
"""
_START_SECONDS: Final = 180.0
_LOOK_SECONDS: Final = 0.25

_AGENT = """
[agent]
id = "bench"
state_dir = "{home}/state"
close_idle_seconds = 60
[[input]]
paths = ["{home}/logs/*.log"]
[output]
hosts = ["127.0.0.1:{port}"]
[output.tls]
ca = "{tls.ca}"
cert = "{tls.client_cert}"
key = "{tls.client_key}"
server_name = "localhost"
"""


def _write_files(directory: Path) -> int:
    """Write the files and return how many bytes each has."""
    directory.mkdir(parents=True)
    for number in range(FILES):
        lines = [
            f"file {number:05d}, line {line}: nothing more is to be said here\n"
            for line in range(_LINES)
        ]
        (directory / f"{number:05d}.log").write_text("".join(lines))
    return len("".join(lines))


def _acknowledged(checkpoint: Path, size: int) -> int:
    """Return how many files, of *size* bytes each, are acknowledged to their ends."""
    if not checkpoint.exists():
        return 0
    entries = msgspec.json.decode(checkpoint.read_bytes(), type=Checkpoint).entries
    return sum(position_of(entry.number) == size for entry in entries)


def resident(child: Child, kind: str) -> float:
    """Return the memory of *child* in MiB: `VmRSS`, or `RssAnon` without mapped files."""
    match = re.search(rf"{kind}:\s+(\d+) kB", Path(f"/proc/{child.pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def _start(home: Path, children: list[Child]) -> Child:
    agent = Child(
        [*LOGDRIVE, "agent", "run", "--config", home / "agent.toml"], log=home / "agent.err"
    )
    children.append(agent)
    return agent


def _until_told(agent: Child, words: bytes, deadline: float) -> None:
    """Return once *agent* has said *words*. Raises `BenchmarkError` where that takes too long."""
    while words not in agent.log.read_bytes():
        _demand_life(agent, deadline)
        time.sleep(_LOOK_SECONDS)


def _until_acknowledged(agent: Child, checkpoint: Path, size: int, deadline: float) -> None:
    while _acknowledged(checkpoint, size) < FILES:
        _demand_life(agent, deadline)
        time.sleep(_LOOK_SECONDS)


def _demand_life(agent: Child, deadline: float) -> None:
    if agent.poll() is not None or time.monotonic() > deadline:
        raise BenchmarkError(f"the agent did not get there: {agent.said() or 'it said nothing'}")


def _run(setting: Setting) -> Mapping[str, Sample]:
    home = setting.work / "agent_idle"
    shutil.rmtree(home, ignore_errors=True)
    try:
        size = _write_files(home / "logs")
        port, tls = free_port(), setting.certificates
        (home / "receiver.toml").write_text(
            receiver_config(tls, port, f"file://{home}/store#bench/idle")
        )
        (home / "agent.toml").write_text(_AGENT.format(home=home, port=port, tls=tls))
        with family() as children:
            receiver = Child(
                [*LOGDRIVE, "receiver", "run", "--config", home / "receiver.toml"],
                log=home / "receiver.err",
            )
            children.append(receiver)
            wait_for_listener(port, receiver, 60)
            agent = _start(home, children)
            _until_acknowledged(
                agent, home / "state/checkpoint.json", size, time.monotonic() + _START_SECONDS
            )
            first = agent.cpu_seconds()
            time.sleep(_SETTLING_SECONDS)
            before, began = agent.cpu_seconds(), time.monotonic()
            time.sleep(_COUNTED_SECONDS)
            used, took = agent.cpu_seconds() - before, time.monotonic() - began
            whole, anonymous = resident(agent, "VmRSS"), resident(agent, "RssAnon")
            peak = agent.peak_rss()
            agent.ask_to_end()
            agent.wait(60)
            demand_success([agent])
            (home / "agent.err").unlink()
            again = _start(home, children)
            _until_told(again, b"files found", time.monotonic() + _START_SECONDS)
            second = again.cpu_seconds()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return {
        "cpu": Sample(100 * used / took, "% of a core"),
        "rss": Sample(whole, "MiB"),
        "anonymous_rss": Sample(anonymous, "MiB"),
        "peak_rss": Sample(peak / 2**20, "MiB"),
        "start_cpu": Sample(first, "s"),
        "restart_cpu": Sample(second, "s"),
    }


BENCHMARKS = (
    Benchmark(
        "agent.idle",
        f"logdrive agent: {FILES:,} files of {_LINES} lines, to which nothing is written",
        _run,
    ),
)
