"""Whether a pipeline that follows keeps up with an agent, all on one machine.

Agent, receiver with its store, and pipeline share the cores, and are there and idle when the clock
starts. A line has arrived when the second table has it. `spark.keep_up` gives the agent files that
are there as a whole, so it ships as fast as it can; with `spark.keep_up_nice` the others go before
it where all want the cores. `spark.keep_up_rate` writes lines at a rate.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, cycle
from pathlib import Path

from bench.commands import LOGDRIVE, receiver_config
from bench.end_to_end import AGENT
from bench.measure import Benchmark, Sample, Setting, percentile
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
_COPIES = 36
"""Files of the log that are shipped at full speed."""
_RATE = 1_300_000
"""Lines a second that are written: the agent's full speed when this goal was set."""
_RATE_SECONDS = 10.0
_TICKS = 100
"""Writes a second."""
_FIRST = b"the first line\n"
_NICE = ("nice", "-n", "10")
_LOOK_SECONDS = 0.05
_LIMIT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Following:
    """What runs, and has brought a first line into the tables."""

    logs: Path
    tables: Path
    agent: Child
    receiver: Child
    pipeline: Child

    def end_agent(self) -> float:
        """Have the agent ship what there is, and end; return when it has, in seconds since 1970."""
        time.sleep(0.5)  # it has found all files
        self.agent.ask_to_end()
        return self.agent.wait(_LIMIT_SECONDS).ended - time.monotonic() + time.time()

    def await_lines(self, lines: int) -> list[tuple[int, float]]:
        """Return the commits once *lines* more are in the tables: lines so far, and when.

        The processes have ended then.
        """
        self.await_rows(1 + lines)
        for child in (self.pipeline, self.receiver):
            child.ask_to_end()
            child.wait(60)
        rows = [commit.rows for commit in commits(self.tables / "bronze" / "events")]
        times = [commit.seconds for commit in commits(self.tables / "bronze" / "batches")]
        return list(zip((total - 1 for total in accumulate(rows)), times, strict=True))

    def await_rows(self, wanted: int) -> None:
        events, deadline = self.tables / "bronze" / "events", time.monotonic() + _LIMIT_SECONDS
        while (rows := sum(commit.rows for commit in commits(events))) < wanted:
            if self.pipeline.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError(
                    f"the table has {rows} rows of {wanted}: {self.pipeline.said()}"
                )
            time.sleep(_LOOK_SECONDS)


def _run(setting: Setting, before: Sequence[str] = ()) -> Mapping[str, Sample]:
    """Ship whole files by an agent whose command has *before* in front of it."""
    with _following(setting, before) as system:
        staged = system.logs.with_name("staged")
        staged.mkdir()
        for number in range(_COPIES):
            # a first line of its own: files that begin alike may be copies of one
            with (staged / f"{number}.log").open("wb") as copy:
                copy.write(b"copy %d\n" % number)
                copy.write(setting.log.read_bytes().partition(b"\n")[2])
        began = time.time()
        for path in staged.iterdir():
            path.rename(system.logs / path.name)
        shipped = system.end_agent()
        lines = setting.lines * _COPIES
        last = system.await_lines(lines)[-1][1]
    return {
        "shipped": Sample(lines / (shipped - began), "lines/s"),
        "arrived": Sample(lines / (last - began), "lines/s"),
        "behind": Sample(last - shipped, "s"),
    }


def _run_rate(setting: Setting) -> Mapping[str, Sample]:
    with _following(setting) as system:
        written = _write_at_rate(system.logs / "written.log", setting.log)
        system.end_agent()
        made = system.await_lines(written[-1][0])
    delays = [
        seconds - next(at for total, at in written if total >= lines)
        for lines, seconds in made
        if lines  # the first one is that of the first line
    ]
    return {
        "written": Sample(written[-1][0] / (written[-1][1] - written[0][1]), "lines/s"),
        "delay_p50": Sample(percentile(delays, 0.5), "s"),
        "delay_max": Sample(max(delays), "s"),
    }


def _write_at_rate(path: Path, log: Path) -> list[tuple[int, float]]:
    """Write the lines of *log* to *path*, over and over; return how many so far, and when."""
    lines = log.read_bytes().splitlines(keepends=True)
    size = _RATE // _TICKS
    blocks = [lines[at : at + size] for at in range(0, len(lines), size)]
    texts = cycle([(len(block), b"".join(block)) for block in blocks])
    began, total = time.time(), 0
    written = [(0, began)]
    with path.open("wb", buffering=0) as file:
        while (due := began + total / _RATE) < began + _RATE_SECONDS:
            time.sleep(max(0.0, due - time.time()))
            count, text = next(texts)
            file.write(text)
            total += count
            written.append((total, time.time()))
    return written


@contextmanager
def _following(setting: Setting, before_agent: Sequence[str] = ()) -> Iterator[_Following]:
    home = setting.work / "keep_up"
    shutil.rmtree(home, ignore_errors=True)
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "first.log").write_bytes(_FIRST)
    port, face = free_ports(2)
    _configure(setting, home, port, face)
    uri = f"pravega://127.0.0.1:{face}/{_STREAM}"
    try:
        with family() as children:
            receiver = _start(children, home, "receiver", "receiver", "run")
            wait_for_listener(port, receiver, 60)
            wait_for_listener(face, receiver, 60)
            agent = _start(children, home, "agent", "agent", "run", before=before_agent)
            _await_stream(uri, home)
            following = ("pipeline", "run", "--from", uri, "--to", home / "tables")
            pipeline = _start(children, home, "pipeline", *following)
            system = _Following(home / "logs", home / "tables", agent, receiver, pipeline)
            system.await_rows(1)
            yield system
            demand_success(children)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _configure(setting: Setting, home: Path, port: int, face: int) -> None:
    tls, uri = setting.certificates, f"file://{home}/store#{_STREAM}"
    listen = f'[listen.pravega]\naddress = "127.0.0.1:{face}"\n'
    (home / "receiver.toml").write_text(receiver_config(tls, port, uri) + listen)
    text = AGENT.format(home=home, log=home / "logs" / "*.log", port=port, output="", tls=tls)
    (home / "agent.toml").write_text(text.replace("state-*", "state"))


def _start(
    children: list[Child],
    home: Path,
    name: str,
    *arguments: str | Path,
    before: Sequence[str] = (),
) -> Child:
    if len(arguments) == 2:
        arguments = (*arguments, "--config", home / f"{name}.toml")
    child = Child([*before, *LOGDRIVE, *arguments], log=home / f"{name}.err")
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


BENCHMARKS = (
    Benchmark(
        "spark.keep_up",
        "Agent at full speed → receiver → pipeline that follows, all on one machine",
        _run,
        missing_spark,
    ),
    Benchmark(
        "spark.keep_up_nice",
        "The same where the agent has a lower priority (nice 10)",
        lambda setting: _run(setting, _NICE),
        missing_spark,
    ),
    Benchmark(
        "spark.keep_up_rate",
        f"{_RATE / 1e6:g} million lines/s → agent → receiver → pipeline that follows, likewise",
        _run_rate,
        missing_spark,
    ),
)
