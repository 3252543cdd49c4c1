"""An agent and many files: a hundred that grow and are rotated, and 100,000 that are there.

*Rotation*: 100 files get 104 MiB/s together, so that 100 are reached on a busy machine. Each is
rotated five times by renames, and two rotated files of it are kept, so that the oldest is removed
while the agent may still read it. Every byte must arrive. *Many*: the first start of an agent that
begins at the end of 100,000 files, until it knows all of them, with their positions durable in its
checkpoint.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.agent.programs import Programs, programs, wait_until_told
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.batch_walker import BatchWalker
from logdrive.model.limits import RUN_BYTES
from logdrive.model.units import MIB
from logdrive.store.engine import Store

_FILES: Final = 100
_PACE: Final = 104 * MIB
"""Bytes a second, of all files together."""
_ROTATIONS: Final = 5
_KEPT: Final = 2
_SECONDS: Final = 20.0
_TICK_SECONDS: Final = 0.05
"""Each file gets a piece once in so many seconds."""

_MANY: Final = 100_000
_IN_A_DIRECTORY: Final = 10_000
_START_SECONDS: Final = 120.0


class _RotatedFile:
    """A file that an application writes to and rotates."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.written = 0
        self._open()

    def _open(self) -> None:
        self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, piece: bytes) -> None:
        """Append *piece*."""
        self.written += os.write(self._handle, piece)

    def rotate(self) -> None:
        """Rename it and those before it, the oldest of which goes; then begin anew."""
        os.close(self._handle)
        for number in range(_KEPT, 1, -1):
            older = self._path.with_name(f"{self._path.name}.{number - 1}")
            if older.exists():
                older.rename(self._path.with_name(f"{self._path.name}.{number}"))
        self._path.rename(f"{self._path}.1")
        self._open()


def _write_and_rotate(files: list[_RotatedFile], text: bytes) -> None:
    """Write to all *files* at the pace, and rotate each of them five times, one after another."""
    piece = int(_PACE * _TICK_SECONDS / _FILES)
    pieces = [
        text[begin : text.index(b"\n", begin + piece) + 1]
        for begin in range(0, min(len(text) - 4 * piece, 64 * piece), piece)
    ]
    began, ticks = time.monotonic(), int(_SECONDS / _TICK_SECONDS)
    apart = ticks // (_ROTATIONS + 1)
    for tick in range(ticks):
        for number, file in enumerate(files):
            due = tick - number * apart // _FILES
            if due > 0 and due % apart == 0 and due // apart <= _ROTATIONS:
                file.rotate()
            file.write(pieces[(tick + number) % len(pieces)])
        time.sleep(max(0.0, began + (tick + 1) * _TICK_SECONDS - time.monotonic()))


async def _delivered(store: Path) -> tuple[int, int]:
    """Return the bytes of files in all batches of *store*, and those in gaps."""
    executor = ThreadExecutor("bench-store")
    engine = await Store.open(str(store), disk=SystemDisk(), executor=executor, clock=SystemClock())
    data = gaps = 0
    try:
        for name in engine.segments("bench/files/"):
            info = engine.info(name)
            assert info is not None
            walker = BatchWalker(name, info.start, max_event=RUN_BYTES)
            while walker.position < info.length:
                walker.receive_data(engine.read(name, walker.position, MIB), walker.position)
                while (batch := walker.next_header()) is not None:
                    header = batch.header
                    if header is None or header.position is None or header.previous is None:
                        raise BenchmarkError(f"a batch at {batch.offset} is of no file")
                    size = header.position - header.previous
                    data += size if header.kind == "data" else 0
                    gaps += size if header.kind == "gap" else 0
    finally:
        await engine.close()
        executor.close()
    return data, gaps


def _run_rotation(setting: Setting) -> Mapping[str, Sample]:
    with programs(setting, "agent_rotation") as running:
        agent = running.start_agent()
        wait_until_told(agent, b"files found", _START_SECONDS)
        files = [_RotatedFile(running.logs / f"{number:03d}.log") for number in range(_FILES)]
        began = time.monotonic()
        _write_and_rotate(files, setting.log.read_bytes()[: 64 * MIB])
        took = time.monotonic() - began
        running.end(agent)
        caught_up = time.monotonic() - began - took
        used, peak = agent.cpu_seconds(), agent.peak_rss()
        running.end(running.receiver)
        written = sum(file.written for file in files)
        data, gaps = asyncio.run(_delivered(running.home / "store"))
    if data > written:
        raise BenchmarkError(f"{data} bytes arrived of {written} that were written")
    return {
        "missed": Sample(written - data, "bytes"),
        "in_gaps": Sample(gaps, "bytes"),
        "pace": Sample(written / took / MIB, "MiB/s"),
        "catching_up": Sample(caught_up, "s"),
        "cpu": Sample(100 * used / took, "% of a core"),
        "peak_rss": Sample(peak / 1e6, "MB"),
    }


def _write_many(running: Programs) -> None:
    for first in range(0, _MANY, _IN_A_DIRECTORY):
        directory = running.logs / f"{first:06d}.log.d"
        directory.mkdir()
        for number in range(first, first + _IN_A_DIRECTORY):
            (directory / f"{number:06d}.log").write_bytes(b"file %06d begins\nand ends\n" % number)


def _run_many(setting: Setting) -> Mapping[str, Sample]:
    with programs(setting, "agent_many") as running:
        _write_many(running)
        began = time.monotonic()
        agent = running.start_agent(keys='start = "end"', paths=f"{running.logs}/*/*.log")
        wait_until_told(agent, b"files found", _START_SECONDS)
        took = time.monotonic() - began
        return {
            "seconds": Sample(took, "s"),
            "cpu": Sample(agent.cpu_seconds(), "s"),
            "peak_rss": Sample(agent.peak_rss() / 1e6, "MB"),
        }


BENCHMARKS = (
    Benchmark(
        "agent.rotation",
        f"logdrive agent: {_FILES} files get {_PACE // MIB} MiB/s together and are rotated "
        f"{_ROTATIONS} times each, {_KEPT} generations kept",
        _run_rotation,
    ),
    Benchmark(
        "agent.many",
        f"logdrive agent: {_MANY:,} files found, and positioned at their ends",
        _run_many,
    ),
)
