"""The store's network face: batches appended and a segment read back over loopback, the store in a process of its own."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from uuid import UUID

from bench.decode import batches
from bench.measure import Benchmark, Sample, Setting, percentile
from bench.processes import BenchmarkError, Child, family, free_port, wait_for_listener
from logdrive.sinks.blocking import BlockingClient, Target
from logdrive.sinks.pravega_client import SegmentClient

_SEGMENT = "bench/bench/0.#epoch.0"
_IN_FLIGHT = 8
_FETCH_BYTES = 16 << 20


def _served(setting: Setting, children: list[Child]) -> Target:
    """Start a store and return where it listens."""
    port, path, config = free_port(), setting.work / "face_store", setting.work / "face_store.toml"
    shutil.rmtree(path, ignore_errors=True)
    config.write_text(f'[store]\npath = "{path}"\n[listen.pravega]\naddress = "127.0.0.1:{port}"\n')
    program = os.path.join(os.path.dirname(sys.executable), "logdrive")
    child = Child([program, "store", "run", "--config", config, "--log-level", "warning"], log=setting.work / "face_store.log")
    children.append(child)
    wait_for_listener(port, child)
    return Target("127.0.0.1", port)


async def _append(client: SegmentClient, work: Sequence[tuple[bytes, int]]) -> list[float]:
    """Append *work* (batch, position), eight in flight; return how long each took to be acknowledged."""
    await client.create_segment(_SEGMENT)
    writer = await client.set_up(_SEGMENT, UUID(int=1))
    gate, times = asyncio.Semaphore(_IN_FLIGHT), []

    async def acknowledged(stored: "asyncio.Future[int]", began: float) -> None:
        await stored
        times.append(time.monotonic() - began)
        gate.release()

    async with asyncio.TaskGroup() as group:
        for data, number in work:
            await gate.acquire()
            group.create_task(acknowledged(writer.append(data, events=1, number=number), time.monotonic()))
    return times


def _run(setting: Setting) -> Mapping[str, Sample]:
    work = batches(setting)
    size = sum(len(data) for data, _ in work)
    try:
        with family() as children, BlockingClient(_served(setting, children)) as client:
            began = time.monotonic()
            times = client.call(lambda service: _append(service, work))
            appended = time.monotonic()
            read = sum(len(client.fetch(_SEGMENT, at, min(at + _FETCH_BYTES, size))) for at in range(0, size, _FETCH_BYTES))
            ended = time.monotonic()
    finally:
        shutil.rmtree(setting.work / "face_store", ignore_errors=True)
    if read != size:
        raise BenchmarkError(f"{read} of {size} bytes came back")
    return {
        "append": Sample(size / (appended - began) / 1e6, "MB/s"),
        "append_ack_p50": Sample(percentile(times, 0.5) * 1e3, "ms"),
        "append_ack_p99": Sample(percentile(times, 0.99) * 1e3, "ms"),
        "read": Sample(size / (ended - appended) / 1e6, "MB/s"),
    }


BENCHMARKS = (
    Benchmark("store.face", "Store over its Pravega face: appends acknowledged after fdatasync, eight in flight; then reads", _run),
)
