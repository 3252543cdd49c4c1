"""The embedded store alone: how fast appends become durable, beside what the disk gives to those who only write."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from uuid import UUID

from bench.decode import batches
from bench.measure import Benchmark, Sample, Setting, percentile
from bench.processes import BenchmarkError
from logdrive.clock import SystemClock
from logdrive.disk import SystemDisk
from logdrive.executor import ThreadExecutor
from logdrive.record import ABSENT
from logdrive.store.engine import Store

_SEGMENT = "bench/bench/0.#epoch.0"
_IN_FLIGHT = 8  # batches submitted and not yet durable
_COMMITS = 200
_COMMIT_BYTES = 64 * 1024
_WRITERS = 16
_DD = "store.dd_conv_fdatasync"
_LOOP = "store.write_and_fdatasync"


@contextlib.asynccontextmanager
async def _store(setting: Setting) -> AsyncIterator[Store]:
    """Give a new store with one segment; its directory is removed afterwards."""
    path, executor = setting.work / "store", ThreadExecutor("store")
    shutil.rmtree(path, ignore_errors=True)
    try:
        store = await Store.open(str(path), disk=SystemDisk(), executor=executor, clock=SystemClock())
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run(asyncio.Event()))
            await store.create(_SEGMENT)
            yield store
            await store.close()
    finally:
        executor.close()
        shutil.rmtree(path, ignore_errors=True)


async def _append_all(setting: Setting, work: Sequence[tuple[bytes, int]]) -> tuple[float, float, int]:
    """Append *work* (batch, position), eight in flight; return seconds, CPU seconds and the segment's length."""
    writer, expected = UUID(int=1), ABSENT
    async with _store(setting) as store:
        began, used = time.monotonic(), time.process_time()
        flying: list[asyncio.Future[int]] = []
        for data, number in work:
            if len(flying) == _IN_FLIGHT:
                await flying.pop(0)
            flying.append(store.append(_SEGMENT, data, writer=writer, expected=expected, number=number, events=1))
            expected = number
        lengths = [await future for future in flying]
        return time.monotonic() - began, time.process_time() - used, lengths[-1]


def _append(setting: Setting) -> Mapping[str, Sample]:
    work = batches(setting)
    size = sum(len(data) for data, _ in work)
    seconds, used, length = asyncio.run(_append_all(setting, work))
    if length != size:
        raise BenchmarkError(f"the segment holds {length} of {size} bytes")
    return {
        "throughput": Sample(size / seconds / 1e6, "MB/s"),
        "cpu": Sample(used / setting.lines * 1e6, "µs/line"),
    }


def _dd(setting: Setting) -> Mapping[str, Sample]:
    """Write the same bytes in pieces of the same size with dd, and sync once at the end."""
    source, copy = setting.work / "segment.in", setting.work / "segment.out"
    began = time.monotonic()
    subprocess.run(["dd", f"if={source}", f"of={copy}", "bs=800k", "conv=fdatasync", "status=none"], check=True, timeout=300)
    seconds = time.monotonic() - began
    size = copy.stat().st_size
    copy.unlink()
    return {"throughput": Sample(size / seconds / 1e6, "MB/s")}


async def _commit_times(setting: Setting, writers: int) -> list[float]:
    """Let *writers* append 64 KiB each, one after the other has become durable; return how long each append took."""
    data, times = os.urandom(_COMMIT_BYTES), []

    async def one(store: Store, number: int) -> None:
        writer, expected = UUID(int=1 + number), ABSENT
        for count in range(1, _COMMITS // writers + 1):
            began = time.monotonic()
            await store.append(_SEGMENT, data, writer=writer, expected=expected, number=count, events=1)
            times.append(time.monotonic() - began)
            expected = count

    async with _store(setting) as store:
        await asyncio.gather(*(one(store, number) for number in range(writers)))
    return times


def _commit(setting: Setting, writers: int) -> Mapping[str, Sample]:
    return _latencies(asyncio.run(_commit_times(setting, writers)))


def _loop(setting: Setting) -> Mapping[str, Sample]:
    """Write 64 KiB and sync, over and over, with nothing else: what no store on this disk can beat."""
    path, data = setting.work / "loop.out", os.urandom(_COMMIT_BYTES)
    times = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for _ in range(_COMMITS):
            began = time.monotonic()
            os.write(descriptor, data)
            os.fdatasync(descriptor)
            times.append(time.monotonic() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return _latencies(times)


def _latencies(times: list[float]) -> Mapping[str, Sample]:
    return {"p50": Sample(percentile(times, 0.5) * 1e3, "ms"), "p99": Sample(percentile(times, 0.99) * 1e3, "ms")}


def _write_segment(setting: Setting) -> None:
    (setting.work / "segment.in").write_bytes(b"".join(data for data, _ in batches(setting)))


def _remove_segment(setting: Setting) -> None:
    (setting.work / "segment.in").unlink(missing_ok=True)


BENCHMARKS = (
    Benchmark("store.append", "Store: batches of three blocks, eight in flight, acknowledged after fdatasync", _append, peers=(_DD,)),
    Benchmark(_DD, "dd bs=800k conv=fdatasync: the same bytes, synced once", _dd, prepare=_write_segment, finish=_remove_segment),
    Benchmark(
        "store.commit", "Store: appends of 64 KiB by one writer, each after the last is durable", lambda s: _commit(s, 1), peers=(_LOOP,)
    ),
    Benchmark("store.commit_of_16", "The same by 16 writers side by side: group commit", lambda s: _commit(s, _WRITERS), peers=(_LOOP,)),
    Benchmark(_LOOP, "write and fdatasync of 64 KiB in a loop", _loop),
)
