"""How fast appends become durable: in process, over the face, at a real Pravega, and with dd."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from uuid import UUID

from bench.measure import Benchmark, Sample, Setting, percentile
from bench.processes import BenchmarkError
from bench.store.load import LOADS, Load, append_all
from bench.store.servers import Place, append_through, face, no_pravega, pravega, with_sink
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.numbers import ABSENT
from logdrive.store.engine import Store

SEGMENT = "bench/bench/0.#epoch.0"
_SEGMENTS = (SEGMENT, *(f"bench/bench/{number}.#epoch.0" for number in range(1, 4)))
_COMMITS = 200
_COMMIT_BYTES = 64 * 1024
_LOOP = "store.write_and_fdatasync"


@contextlib.asynccontextmanager
async def open_store(setting: Setting) -> AsyncIterator[Store]:
    """Give a new store with four segments; its directory is removed afterwards."""
    path, executor = setting.work / "store", ThreadExecutor("store")
    shutil.rmtree(path, ignore_errors=True)
    try:
        store = await Store.open(
            str(path), disk=SystemDisk(), executor=executor, clock=SystemClock()
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run(asyncio.Event()))
            await asyncio.gather(*map(store.create, _SEGMENTS))
            yield store
            await store.close()
    finally:
        executor.close()
        shutil.rmtree(path, ignore_errors=True)


async def _engine(load: Load, setting: Setting) -> Mapping[str, Sample]:
    writers = [UUID(int=1 + number) for number in range(load.writers)]
    async with open_store(setting) as store:

        def submit(
            writer: int, data: bytes, previous: int, number: int
        ) -> "asyncio.Future[object]":
            segment = _SEGMENTS[writer % len(_SEGMENTS)]
            return store.append(
                segment, data, writer=writers[writer], expected=previous, number=number, events=1
            )  # type: ignore[return-value]

        appended = await append_all(load, setting, submit)
        _demand(
            appended.bytes, [info.length for info in map(store.info, _SEGMENTS) if info is not None]
        )
    return appended.samples() | {"cpu": Sample(appended.cpu / appended.bytes * 1e9, "s/GB")}


def _demand(wanted: int, lengths: Sequence[int]) -> None:
    if sum(lengths) != wanted:
        raise BenchmarkError(f"the segments hold {sum(lengths)} of {wanted} bytes")


def _remote(load: Load, place: Place, setting: Setting) -> Mapping[str, Sample]:
    with place(setting) as server:
        used = server.cpu_seconds()
        appended = with_sink(server, lambda sink: append_through(sink, load, setting))
        used = server.cpu_seconds() - used
        return appended.samples() | {
            "server_cpu": Sample(used / appended.bytes * 1e9, "s/GB"),
            "client_cpu": Sample(appended.cpu / appended.bytes * 1e9, "s/GB"),
            "server_rss": server.rss(),
        }


def _dd(load: Load, setting: Setting) -> Mapping[str, Sample]:
    """Write as many bytes in pieces of the same size with dd, and sync once at the end."""
    source, copy = setting.work / "append.in", setting.work / "append.out"
    began = time.monotonic()
    command = [
        "dd",
        f"if={source}",
        f"of={copy}",
        f"bs={load.size}",
        "conv=fdatasync",
        "status=none",
    ]
    subprocess.run(command, check=True, timeout=300)
    seconds = time.monotonic() - began
    size = copy.stat().st_size
    copy.unlink()
    return {"throughput": Sample(size / seconds / 1e6, "MB/s")}


def _write_input(load: Load, setting: Setting) -> None:
    with (setting.work / "append.in").open("wb") as file:
        for _ in range(load.writers * load.appends(setting)):
            file.write(os.urandom(load.size))


def _remove_input(setting: Setting) -> None:
    (setting.work / "append.in").unlink(missing_ok=True)


def of_writers(load: Load) -> Sequence[Benchmark]:
    """Return the group that takes *load* to every place."""
    group, load_text = f"append_{load.writers}", load.told()
    dd, real = f"{group}.dd_conv_fdatasync", f"{group}.pravega"
    peers = (dd, real)
    return (
        Benchmark(
            f"{group}.engine",
            f"Store in this process: {load_text}",
            lambda s: asyncio.run(_engine(load, s)),
            peers=peers,
        ),
        Benchmark(
            f"{group}.face",
            f"Store over its face, in another process: {load_text}",
            partial(_remote, load, face),
            peers=peers,
        ),
        Benchmark(
            *(
                dd,
                f"dd bs={load.size // 1024}k conv=fdatasync: as many bytes, synced once",
                partial(_dd, load),
            ),
            prepare=partial(_write_input, load),
            finish=_remove_input,
        ),
        Benchmark(
            real,
            f"Pravega 0.13.0, all in memory, no disk: {load_text}",
            partial(_remote, load, pravega),
            missing=no_pravega,
        ),
    )


# One append at a time ---------------------------------------------------------------------------


async def _commit_times(setting: Setting, writers: int) -> list[float]:
    """Return how long appends of 64 KiB take; each of *writers* waits for its last one."""
    data, times = os.urandom(_COMMIT_BYTES), []

    async def one(store: Store, number: int) -> None:
        writer, expected = UUID(int=1 + number), ABSENT
        for count in range(1, _COMMITS // writers + 1):
            began = time.monotonic()
            await store.append(
                SEGMENT, data, writer=writer, expected=expected, number=count, events=1
            )
            times.append(time.monotonic() - began)
            expected = count

    async with open_store(setting) as store:
        await asyncio.gather(*(one(store, number) for number in range(writers)))
    return times


def _commit(writers: int, setting: Setting) -> Mapping[str, Sample]:
    return _latencies(asyncio.run(_commit_times(setting, writers)))


def _loop(setting: Setting) -> Mapping[str, Sample]:
    """Write 64 KiB and sync in a loop: no store on this disk can be faster."""
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
    return {
        "p50": Sample(percentile(times, 0.5) * 1e3, "ms"),
        "p99": Sample(percentile(times, 0.99) * 1e3, "ms"),
    }


APPENDS = tuple(of_writers(load) for load in LOADS)
COMMITS = (
    Benchmark(
        "store.commit",
        "Store: appends of 64 KiB by one writer, one at a time",
        partial(_commit, 1),
        peers=(_LOOP,),
    ),
    Benchmark(
        "store.commit_of_16",
        "The same by 16 writers side by side: group commit",
        partial(_commit, 16),
        peers=(_LOOP,),
    ),
    Benchmark(_LOOP, "write and fdatasync of 64 KiB in a loop", _loop),
)
