"""What a line takes on the wire and on the disk where files grow by little at a time.

One run: a receiver with a new store, and an agent that follows one file. Lines are written to it in
bursts, each when the one before it is stored: a burst makes a run of its own, or several if it is
long. The first burst comes with the handshake and the registration, and is not counted.
"""

import shutil
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import orjson

from bench.commands import LOGDRIVE, demand_same_text, output_of, receiver_config
from bench.end_to_end import AGENT, BLOCKS, ZSTD
from bench.measure import Benchmark, Sample, Setting
from bench.processes import (
    BenchmarkError,
    Child,
    demand_success,
    family,
    free_port,
    read_bytes,
    wait_for_listener,
)

_STREAM: Final = "bench/small"
BURSTS: Final = {1: 10, 10: 10, 100: 10, 10_000: 3}
"""Counted bursts, by their lines."""
_LOOK_SECONDS: Final = 0.02
_QUIET_SECONDS: Final = 0.3
"""Nothing more comes of a burst after this time: the agent looks at its file more often."""
_LIMIT_SECONDS: Final = 60.0


def stored_bytes(store: Path) -> int:
    """Return the bytes of the log of *store*, without the zeros at its end."""
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in store.glob("log-*"))


def bursts_of(log: Path, lines: int) -> Iterator[bytes]:
    """Yield pieces of *log* of so many *lines*: one, and then those that are counted."""
    with log.open("rb") as file:
        for _ in range(1 + BURSTS[lines]):
            burst = list(islice(file, lines))
            if len(burst) < lines:
                raise BenchmarkError(f"bursts of {lines} lines need a longer log: --lines")
            yield b"".join(burst)


def _write(burst: bytes, log: Path, receiver: Child, store: Path) -> None:
    """Append *burst* to *log*, and return when the store has it and the connection is quiet."""
    before, deadline = stored_bytes(store), time.monotonic() + _LIMIT_SECONDS
    with log.open("ab") as file:
        file.write(burst)
    seen, since = -1, time.monotonic()
    while stored_bytes(store) == before or time.monotonic() < since + _QUIET_SECONDS:
        if receiver.poll() is not None or time.monotonic() > deadline:
            raise BenchmarkError(f"a burst of {len(burst)} bytes is not stored: {receiver.said()}")
        time.sleep(_LOOK_SECONDS)
        now = read_bytes(receiver.pid)
        if now != seen:
            seen, since = now, time.monotonic()


def _run(setting: Setting, lines: int, output: str) -> Mapping[str, Sample]:
    home = setting.work / "small_runs"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    log, store, port, tls = home / "small.log", home / "store", free_port(), setting.certificates
    uri = f"file://{store}#{_STREAM}"
    (home / "receiver.toml").write_text(receiver_config(tls, port, uri))
    (home / "agent.toml").write_text(
        AGENT.format(home=home, log=log, port=port, output=output, tls=tls)
    )
    log.touch()
    try:
        with family() as children:
            receiver = Child(
                [*LOGDRIVE, "receiver", "run", "--config", home / "receiver.toml"],
                log=home / "receiver.err",
            )
            children.append(receiver)
            wait_for_listener(port, receiver, 60)
            agent = Child(
                [*LOGDRIVE, "agent", "run", "--config", home / "agent.toml"], log=home / "agent.err"
            )
            children.append(agent)
            bursts = bursts_of(setting.log, lines)
            _write(next(bursts), log, receiver, store)
            wire, disk = read_bytes(receiver.pid), stored_bytes(store)
            for burst in bursts:
                _write(burst, log, receiver, store)
            wire, disk = read_bytes(receiver.pid) - wire, stored_bytes(store) - disk
            for child in (agent, receiver):
                child.ask_to_end()
                child.wait(60)
            demand_success([agent, receiver])
        runs = runs_of_a_burst(uri, lines, home)
        demand_same_text(uri, [log], home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    counted = lines * BURSTS[lines]
    return {
        "wire_bytes": Sample(wire / counted, "B/line"),
        "disk_bytes": Sample(disk / counted, "B/line"),
        "runs": Sample(runs, "runs/burst"),
    }


def runs_of_a_burst(uri: str, lines: int, home: Path) -> float:
    """Return how many runs a burst made. Raises `BenchmarkError` if bursts came together."""
    listed = orjson.loads(output_of(["store", "ls", uri, "--json"], home))["segments"]
    runs, bursts = sum(int(segment["batches"]) for segment in listed), 1 + BURSTS[lines]
    if runs < bursts:
        raise BenchmarkError(f"{bursts} bursts made {runs} runs: some came together")
    return runs / bursts


BENCHMARKS = tuple(
    Benchmark(
        f"small_runs.{form}_{lines}",
        f"{lines:,} line{'s' if lines > 1 else ''} written at a time: {what}",
        partial(_run, lines=lines, output=output),
    )
    for form, what, output in (
        ("packed", "packs", ""),
        ("packed_zstd", "packs with zstd", ZSTD),
        ("blocks", "block records", BLOCKS),
    )
    for lines in BURSTS
)
