"""Whether a pipeline that follows keeps up with an agent at full speed, all on one machine.

Agent, receiver with its store, and pipeline share the cores. The clock starts with the agent's
process; a line has arrived when the second table has it.
"""

import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from bench.commands import LOGDRIVE, receiver_config
from bench.end_to_end import AGENT
from bench.measure import Benchmark, Sample, Setting
from bench.processes import (
    BenchmarkError,
    Child,
    demand_success,
    family,
    free_ports,
    wait_for_listener,
)
from bench.tables.commits import commits
from bench.tables.fill import missing_spark

_STREAM = "bench/nginx"
_COPIES = 12
"""Files of the log that are shipped."""
_LOOK_SECONDS = 0.05
_LIMIT_SECONDS = 300.0


def _run(setting: Setting) -> Mapping[str, Sample]:
    home = setting.work / "keep_up"
    shutil.rmtree(home, ignore_errors=True)
    (home / "logs").mkdir(parents=True)
    port, face = free_ports(2)
    _configure(setting, home, port, face)
    events = home / "tables" / "bronze" / "events"
    try:
        with family() as children:
            receiver = _start(children, home, "receiver", "receiver", "run")
            wait_for_listener(port, receiver, 60)
            wait_for_listener(face, receiver, 60)
            agent = _start(children, home, "agent", "agent", "run")
            began = time.time()
            uri = f"pravega://127.0.0.1:{face}/{_STREAM}"
            _await_stream(uri, home)
            pipeline = _start(
                children,
                home,
                "pipeline",
                "pipeline",
                "run",
                "--from",
                uri,
                "--to",
                home / "tables",
            )
            time.sleep(0.5)  # the agent has looked at its files, so that it ships them all
            agent.ask_to_end()
            shipped = agent.wait(_LIMIT_SECONDS).ended - time.monotonic() + time.time()
            _await_rows(events, setting.lines * _COPIES, pipeline)
            made = commits(home / "tables" / "bronze" / "batches")
            for child in (pipeline, receiver):
                child.ask_to_end()
                child.wait(60)
            demand_success(children)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    last, lines = made[-1].seconds, setting.lines * _COPIES
    return {
        "shipped": Sample(lines / (shipped - began), "lines/s"),
        "arrived": Sample(lines / (last - began), "lines/s"),
        "behind": Sample(last - shipped, "s"),
    }


def _configure(setting: Setting, home: Path, port: int, face: int) -> None:
    tls, uri = setting.certificates, f"file://{home}/store#{_STREAM}"
    listen = f'[listen.pravega]\naddress = "127.0.0.1:{face}"\n'
    (home / "receiver.toml").write_text(receiver_config(tls, port, uri) + listen)
    for number in range(_COPIES):
        # a first line of its own: files that begin alike may be copies of one
        with (home / "logs" / f"{number}.log").open("wb") as copy:
            copy.write(b"copy %d\n" % number)
            copy.write(setting.log.read_bytes().partition(b"\n")[2])
    text = AGENT.format(home=home, log=home / "logs" / "*.log", port=port, output="", tls=tls)
    (home / "agent.toml").write_text(text.replace("state-*", "state"))


def _start(children: list[Child], home: Path, name: str, *arguments: str | Path) -> Child:
    if len(arguments) == 2:
        arguments = (*arguments, "--config", home / f"{name}.toml")
    child = Child([*LOGDRIVE, *arguments], log=home / f"{name}.err")
    children.append(child)
    return child


def _await_stream(uri: str, home: Path) -> None:
    """Return once the receiver has made the stream."""
    deadline = time.monotonic() + 30
    with (home / "ls.err").open("ab") as errors:
        while subprocess.run(
            [*LOGDRIVE, "store", "ls", uri], stdout=errors, stderr=errors, check=False, timeout=60
        ).returncode:
            if time.monotonic() > deadline:
                raise BenchmarkError("the receiver makes no stream")


def _await_rows(events: Path, wanted: int, pipeline: Child) -> None:
    deadline = time.monotonic() + _LIMIT_SECONDS
    while (rows := sum(commit.rows for commit in commits(events))) < wanted:
        if pipeline.poll() is not None or time.monotonic() > deadline:
            raise BenchmarkError(f"the table has {rows} rows of {wanted}: {pipeline.said()}")
        time.sleep(_LOOK_SECONDS)


BENCHMARKS = (
    Benchmark(
        "spark.keep_up",
        "Agent at full speed → receiver → pipeline that follows, all on one machine",
        _run,
        missing_spark,
    ),
)
