"""Time and memory of the start of a 10 GiB store in no cache: after a stop, and after SIGKILL.

The store is made once. Each run opens it twice, in a new process each time: that process opens it,
appends somewhat more than half a log file and is killed; the next one opens what that left behind,
and stops in good order.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError, Child, family, peak_rss
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.units import KIB, MIB
from logdrive.store.engine import Store

_AFTER = 150 * MIB  # appended before the process is killed
_BUILD_SECONDS, _OPEN_SECONDS = 900, 120


@dataclass(frozen=True, slots=True)
class _Shape:
    """How the store's bytes came into it."""

    name: str
    segments: int  # appended to in turn
    writers: int  # append in turn
    batch: int  # bytes of one append

    def told(self) -> str:
        return (
            f"{self.segments:,} segments, {self.writers:,} writers, batches of "
            f"{self.batch // KIB} KiB"
        )

    def path(self, setting: Setting) -> Path:
        return setting.work / f"open_{self.name}"


_SHAPES = (  # 640 KiB: three blocks, what a busy source sends
    _Shape("few_segments", 4, 4, 640 * KIB),
    _Shape("many_segments", 5000, 5000, 640 * KIB),
    _Shape("small_batches", 4, 10_000, 16 * KIB),
)


def _build(shape: _Shape, setting: Setting) -> None:
    """Make the store. Raises `BenchmarkError` where the disk has no room for it."""
    _remove(shape, setting)
    free, wanted = shutil.disk_usage(setting.work).free, setting.store_mib * MIB
    if free < wanted * 1.2:
        raise BenchmarkError(
            f"{free >> 20} MiB are free, {wanted * 12 // 10 >> 20} are needed: give a "
            "smaller --store-mib"
        )
    _child("build", shape, setting, wanted, _BUILD_SECONDS)


def _remove(shape: _Shape, setting: Setting) -> None:
    shutil.rmtree(shape.path(setting), ignore_errors=True)


def _run(shape: _Shape, setting: Setting) -> Mapping[str, Sample]:
    stopped = _child("open_and_die", shape, setting, _AFTER, _OPEN_SECONDS)
    killed = _child("open", shape, setting, 0, _OPEN_SECONDS)
    figures: dict[str, Sample] = {}
    for name, measured in (("stopped", stopped), ("killed", killed)):
        figures[name] = Sample(measured["seconds"], "s")
        figures[f"{name}_cpu"] = Sample(measured["cpu"], "s")
        figures[f"{name}_rss"] = Sample(measured["rss"] / 2**20, "MiB")
    return figures


def _child(
    action: str, shape: _Shape, setting: Setting, size: int, seconds: float
) -> Mapping[str, float]:
    """Return what *action* printed, done in a process of its own."""
    with family() as children:
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "bench.store.open",
            action,
            shape.path(setting),
            str(size),
            shape.name,
        ]
        child = Child(command, log=setting.work / "open.log", stdout=subprocess.PIPE)
        children.append(child)
        ended = child.wait(seconds)
        if ended.code != (-signal.SIGKILL if action == "open_and_die" else 0):
            raise BenchmarkError(f"{action} ended with {ended.code}: {child.said()}")
        figures: Mapping[str, float] = json.loads(child.output.read())
    return figures


# In the process of its own ----------------------------------------------------------------------


async def _main(action: str, path: str, size: int, shape: _Shape) -> None:
    if action != "build":
        _evict(path)
    executor = ThreadExecutor("store")
    began, used = time.monotonic(), time.process_time()
    store = await Store.open(path, disk=SystemDisk(), executor=executor, clock=SystemClock())
    figures = {
        "seconds": time.monotonic() - began,
        "cpu": time.process_time() - used,
        "rss": peak_rss(os.getpid()),
    }
    running = asyncio.create_task(store.run(asyncio.Event()))
    names = [f"bench/bench/{number}.#epoch.0" for number in range(shape.segments)]
    if action == "build":
        for name in names[:-1]:
            store.create(name)
        await store.create(names[-1])
    await _append(store, names, size, shape)
    print(json.dumps(figures), flush=True)
    if action == "open_and_die":
        os.kill(os.getpid(), signal.SIGKILL)
    await store.close()
    await running
    executor.close()


async def _append(store: Store, names: Sequence[str], size: int, shape: _Shape) -> None:
    """Append *size* bytes, by writers that have written before or not."""
    data, stored = os.urandom(shape.batch), None
    for count in range(size // shape.batch):
        await store.room(len(data))
        writer = UUID(int=1 + count % shape.writers)
        name = names[count % len(names)]
        stored = store.append(
            name,
            data,
            writer=writer,
            expected=None,
            number=max(0, store.submitted_number(name, writer)) + 1,
            events=1,
        )
    if stored is not None:
        await stored


def _evict(path: str) -> None:
    """Let the kernel forget what it has of the store's files."""
    for name in os.listdir(path):
        descriptor = os.open(os.path.join(path, name), os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _of(shape: _Shape) -> Sequence[Benchmark]:
    title = f"Start of a 10 GiB store (--store-mib) that is in no cache: {shape.told()}"
    finish = partial(_remove, shape)
    return (
        Benchmark(
            f"open.{shape.name}",
            title,
            partial(_run, shape),
            prepare=partial(_build, shape),
            finish=finish,
        ),
    )


GROUPS = tuple(_of(shape) for shape in _SHAPES)
"""Each a group of its own: only one of the stores is there at a time."""

if __name__ == "__main__":
    asyncio.run(
        _main(
            sys.argv[1],
            sys.argv[2],
            int(sys.argv[3]),
            next(shape for shape in _SHAPES if shape.name == sys.argv[4]),
        )
    )
