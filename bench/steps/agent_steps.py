"""CPU that an agent takes a line for each format, for multiline and for processors, and Filebeat.

One run: a receiver with a new store, and then the same program twice, with a state of its own, on a
file of one event and on the log. Both take mutual TLS and end once everything is acknowledged. What
the one event takes, most of it the start, is subtracted. Filebeat speaks Lumberjack 2, as it only
can, to the same receiver. All CPU of the process counts, its kernel's included.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from bench.commands import LOGDRIVE, receiver_config
from bench.end_to_end import AGENT
from bench.measure import Benchmark, Sample, Setting
from bench.peers import filebeat, filebeat_build
from bench.processes import (
    BenchmarkError,
    Child,
    Usage,
    demand_success,
    family,
    free_port,
    wait_for_listener,
)
from bench.steps.rows import ROWS, Row

_LINES: Final = 200_000
"""Lines of a log at most: those of Filebeat take long."""
_PLAIN_LINES: Final = 1_000_000
"""The same of plain lines, of which the agent's CPU is else lost in that of its start."""

_LOOK_SECONDS: Final = 0.005

_Carry = Callable[[Setting, Path, Path, int, Row, list[Child]], Usage]


def _log_of(setting: Setting, name: str, row: Row) -> tuple[Path, int]:
    """Return the file of *row*, and its lines."""
    lines = min(setting.lines, _PLAIN_LINES if name == "plain" else _LINES)
    path = setting.work / f"steps-{name}-{lines}.log"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with setting.log.open() as source, path.with_suffix(".new").open("w") as target:
            for number, line in enumerate(islice(source, lines)):
                target.write(row.line(number, line.rstrip("\n")) + "\n")
        path.with_suffix(".new").rename(path)
    return path, path.read_bytes().count(b"\n")


def _agent(
    setting: Setting, log: Path, home: Path, port: int, row: Row, children: list[Child]
) -> Usage:
    """Return what an agent took that is asked to end once it has started, so that it drains."""
    home.mkdir(parents=True)
    path = home / "agent.toml"
    config = AGENT.format(home=home, log=log, port=port, output="", tls=setting.certificates)
    path.write_text(config.replace("[output]", f"{row.agent}\n[output]", 1))
    agent = Child([*LOGDRIVE, "agent", "run", "--config", path], log=home / "agent.err")
    children.append(agent)
    limit = time.monotonic() + setting.seconds(2_000)
    while not (home / f"state-{log.stem}/lock").exists():
        if agent.poll() is not None or time.monotonic() > limit:
            raise BenchmarkError(f"the agent did not start: {agent.said()}")
        time.sleep(_LOOK_SECONDS)
    agent.ask_to_end()
    usage = agent.wait(setting.seconds(2_000))
    demand_success([agent])
    return usage


def _filebeat(
    setting: Setting, log: Path, home: Path, port: int, row: Row, children: list[Child]
) -> Usage:
    assert row.filebeat is not None
    tls, limit = setting.certificates, setting.seconds(2_000)
    return filebeat.carry(log, home, tls, port, row.filebeat, children, limit)


def _run(setting: Setting, name: str, row: Row, carry: _Carry) -> Mapping[str, Sample]:
    home = setting.work / "steps"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    log, lines = _log_of(setting, name, row)
    one, port = home / "one.log", free_port()
    # of 1,024 bytes at least, or Filebeat and the agent would wait for more to know it by
    with setting.log.open() as source:
        first = [row.line(number, next(source).rstrip("\n")) for number in range(1, 17)]
    one.write_text("\n".join(first) + "\n")
    (home / "receiver.toml").write_text(
        receiver_config(setting.certificates, port, f"file://{home}/store#bench/steps")
    )
    try:
        with family() as children:
            receiver = Child(
                [*LOGDRIVE, "receiver", "run", "--config", home / "receiver.toml"],
                log=home / "receiver.err",
            )
            children.append(receiver)
            wait_for_listener(port, receiver, 60)
            start = carry(setting, one, home / "one", port, row, children)
            whole = carry(setting, log, home / "whole", port, row, children)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    used = whole.cpu_seconds - start.cpu_seconds
    return {
        "cpu": Sample(used / lines * 1e6, "µs/line"),
        "rss": Sample(whole.peak_rss / 2**20, "MiB"),
    }


def _benchmarks(name: str, row: Row) -> list[Benchmark]:
    ours = Benchmark(
        f"steps.{name}",
        f"logdrive agent: {row.title}",
        lambda setting: _run(setting, name, row, _agent),
        peers=() if row.filebeat is None else (f"steps.filebeat_{name}",),
    )
    if row.filebeat is None:
        return [ours]
    peer = Benchmark(
        f"steps.filebeat_{name}",
        f"Filebeat {filebeat_build.VERSION}: {row.title}",
        lambda setting: _run(setting, name, row, _filebeat),
        filebeat_build.missing,
    )
    return [ours, peer]


BENCHMARKS = tuple(one for name, row in ROWS.items() for one in _benchmarks(name, row))
