"""logdrive itself, end to end: file → agent → mutual TLS → receiver → segment on disk.

One run: a receiver with a new store, then an agent twice, each time with a state of its own: first
on a file of one line, then on the log. The clock starts when the agent has started (it takes its
state directory's lock, and has read nothing yet). At that moment it is asked to end, so it drains,
and ends once everything is acknowledged. What the single line takes, which is handshake,
registration and the end of a process, is subtracted from what the log takes. CPU time, and
the bytes that the receiver has read from its connection, are counted over the same spans, from the
kernel's own accounts. The disk is looked at when the receiver has ended: all files of its store.
"""

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.commands import IN_PYTHON, LOGDRIVE, demand_same_text, receiver_config
from bench.measure import Benchmark, Sample, Setting
from bench.peer_group import C_TOOLS, C_TOOLS_RAW, IGZIP, RSYSLOG
from bench.processes import (
    BenchmarkError,
    Child,
    demand_success,
    family,
    free_port,
    read_bytes,
    wait_for_listener,
)
from logdrive.kernel.loops import COMPILED

_STREAM = "bench/nginx"
_LOOK_SECONDS = 0.002

AGENT = """
[agent]
id = "bench"
state_dir = "{home}/state-{log.stem}"
drain_seconds = 600
[[input]]
paths = ["{log}"]
[output]
hosts = ["127.0.0.1:{port}"]
{output}
[output.tls]
ca = "{tls.ca}"
cert = "{tls.client_cert}"
key = "{tls.client_key}"
server_name = "localhost"
"""

BLOCKS = 'records = "block"'
ZSTD = 'compression = "zstd"'
_PLAIN = 'dialect = "lumberjack/2"\ncompression = "zlib"'
_LOOPS = "compiled" if COMPILED else "Python"
_COMPILED: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Delivery:
    """What one agent took to deliver its log."""

    start: float  # seconds until it had started
    seconds: float  # from then until it had delivered all and ended
    cpu_seconds: float
    rss: int  # most bytes of memory


@dataclass(frozen=True, slots=True)
class _Received:
    """What the receiver took for one log."""

    cpu_seconds: float
    wire_bytes: int  # read from the connection, TLS's own included


def _since(receiver: Child, before: _Received) -> _Received:
    return _Received(
        receiver.cpu_seconds() - before.cpu_seconds, read_bytes(receiver.pid) - before.wire_bytes
    )


def _deliver(
    log: Path,
    home: Path,
    config: str,
    children: list[Child],
    limit: float,
    loops: Mapping[str, str],
) -> _Delivery:
    """Start an agent on *log* and return once everything in it is acknowledged."""
    path = home / f"{log.stem}.toml"
    path.write_text(config)
    spawned = time.monotonic()
    agent = Child(
        [*LOGDRIVE, "agent", "run", "--config", path],
        log=home / "agent.err",
        environment=os.environ | loops,
    )
    children.append(agent)
    lock = home / f"state-{log.stem}" / "lock"
    while not lock.exists():
        if agent.poll() is not None or time.monotonic() > spawned + limit:
            raise BenchmarkError(f"the agent did not start: {agent.said()}")
        time.sleep(_LOOK_SECONDS)
    began, used = time.monotonic(), agent.cpu_seconds()
    agent.ask_to_end()
    usage = agent.wait(limit)
    demand_success([agent])
    return _Delivery(began - spawned, usage.ended - began, usage.cpu_seconds - used, usage.peak_rss)


def _run(
    setting: Setting, output: str, loops: Mapping[str, str] = _COMPILED
) -> Mapping[str, Sample]:
    home = setting.work / "end_to_end"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    one = home / "one.log"
    with setting.log.open("rb") as file:
        one.write_bytes(file.readline())
    uri, port, tls = f"file://{home}/store#{_STREAM}", free_port(), setting.certificates
    (home / "receiver.toml").write_text(receiver_config(tls, port, uri))
    try:
        with family() as children:
            command: list[str | Path] = [
                *LOGDRIVE,
                "receiver",
                "run",
                "--config",
                home / "receiver.toml",
            ]
            receiver = Child(command, log=home / "receiver.err", environment=os.environ | loops)
            children.append(receiver)
            wait_for_listener(port, receiver, 60)
            delivered: list[tuple[_Delivery, _Received]] = []
            for log in (one, setting.log):
                config = AGENT.format(home=home, log=log, port=port, output=output, tls=tls)
                before = _since(receiver, _Received(0, 0))
                delivery = _deliver(log, home, config, children, setting.seconds(5_000), loops)
                delivered.append((delivery, _since(receiver, before)))
            receiver_rss = receiver.peak_rss()
            receiver.ask_to_end()
            receiver.wait(60)
            demand_success([receiver])
        stored = sum(path.stat().st_size for path in (home / "store").rglob("*") if path.is_file())
        demand_same_text(uri, [one, setting.log], home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return _figures(setting, delivered[0], delivered[1], stored, receiver_rss)


def _figures(
    setting: Setting,
    one: tuple[_Delivery, _Received],
    log: tuple[_Delivery, _Received],
    stored: int,
    receiver_rss: int,
) -> Mapping[str, Sample]:
    (idle, idle_received), (whole, received) = one, log
    wire_bytes = received.wire_bytes - idle_received.wire_bytes
    seconds, sent = whole.seconds - idle.seconds, whole.cpu_seconds - idle.cpu_seconds
    if seconds <= 0:
        raise BenchmarkError(
            f"{setting.lines} lines are too few: they took no longer than one line"
        )
    return {
        "lines_per_second": Sample(setting.lines / seconds, "lines/s"),
        "lines_per_second_with_start": Sample(
            setting.lines / (whole.start + whole.seconds), "lines/s"
        ),
        "raw_bytes": Sample(setting.log.stat().st_size / seconds / 1e6, "MB/s"),
        "sender_cpu": Sample(sent / setting.lines * 1e6, "µs/line"),
        "receiver_cpu": Sample(received.cpu_seconds / setting.lines * 1e6, "µs/line"),
        "wire_bytes": Sample(wire_bytes / setting.lines, "B/line"),
        "disk_bytes": Sample(stored / setting.lines, "B/line"),
        "sender_rss": Sample(whole.rss / 2**20, "MiB"),
        "receiver_rss": Sample(receiver_rss / 2**20, "MiB"),
        "start": Sample(whole.start, "s"),
    }


def _benchmark(
    name: str, title: str, output: str, loops: Mapping[str, str] = _COMPILED
) -> Benchmark:
    return Benchmark(
        f"end_to_end.{name}",
        title,
        lambda setting: _run(setting, output, loops),
        peers=(C_TOOLS, C_TOOLS_RAW, RSYSLOG, IGZIP),
    )


BENCHMARKS = (
    _benchmark("packed", "logdrive: packs over logdrive/1, as configured by default", ""),
    _benchmark("packed_zstd", "logdrive: the same with zstd: fewer bytes, more CPU", ZSTD),
    _benchmark("blocks", "logdrive: block records over logdrive/1", BLOCKS),
    _benchmark(
        "blocks_zstd",
        "logdrive: the same with zstd: fewer bytes, more CPU",
        f"{BLOCKS}\n{ZSTD}",
    ),
    _benchmark(
        "full_records",
        "logdrive: full records over plain Lumberjack v2, whose only compression is "
        f"zlib; {_LOOPS} loops",
        _PLAIN,
    ),
    _benchmark(
        "full_records_python_loops",
        "logdrive: the same where the loops over lines are not compiled",
        _PLAIN,
        IN_PYTHON,
    ),
)
