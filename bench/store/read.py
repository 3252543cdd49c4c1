"""A whole segment read from the page cache: in process, over the face, at a real Pravega."""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from uuid import UUID

from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from bench.store.append import SEGMENT, open_store
from bench.store.load import Load
from bench.store.servers import Place, append_through, face, no_pravega, pravega, with_sink
from logdrive.model.numbers import ABSENT
from logdrive.model.units import KIB, MIB
from logdrive.services.pravega.client.blocking import BlockingClient
from logdrive.wire.pravega.limits import PRAVEGA_READ_BYTES

_LOAD = Load(1, 640 * KIB, 16)  # three blocks, the usual batch
_FETCH_BYTES = 16 * MIB  # what the pipeline asks for at a time


def _ranges(length: int, size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + size, length)) for start in range(0, length, size))


async def _engine(setting: Setting) -> Mapping[str, Sample]:
    data, length, previous = os.urandom(_LOAD.size), _LOAD.bytes_in(setting), ABSENT
    async with open_store(setting) as store:
        for number in range(1, _LOAD.appends(setting) + 1):
            stored = store.append(
                SEGMENT, data, writer=UUID(int=1), expected=previous, number=number, events=1
            )
            previous = number
            await store.room(len(data))
        await stored
        warm(setting.work / "store")
        began, used, read = time.monotonic(), time.process_time(), 0
        for start, end in _ranges(length, PRAVEGA_READ_BYTES):
            read += len(store.read(SEGMENT, start, end - start))
        return _samples(read, length, time.monotonic() - began, {"cpu": time.process_time() - used})


def warm(directory: Path) -> None:
    """Read the files in *directory*, if it exists, so that the page cache has them: the store
    writes past it.
    """
    for path in directory.glob("log-*"):
        with path.open("rb") as file:
            while file.read(_FETCH_BYTES):
                pass


def _remote(place: Place, setting: Setting) -> Mapping[str, Sample]:
    length = _LOAD.bytes_in(setting)
    with place(setting) as server:
        with_sink(server, lambda sink: append_through(sink, _LOAD, setting), segments=1)
        warm(setting.work / "face_store")
        with BlockingClient(server.store) as client:
            began, used, driver, read = (
                time.monotonic(),
                server.cpu_seconds(),
                time.process_time(),
                0,
            )
            for start, end in _ranges(length, _FETCH_BYTES):
                read += len(client.fetch(SEGMENT, start, end))
            seconds, cpu = (
                time.monotonic() - began,
                {
                    "server_cpu": server.cpu_seconds() - used,
                    "client_cpu": time.process_time() - driver,
                },
            )
    return _samples(read, length, seconds, cpu)


def _samples(
    read: int, length: int, seconds: float, cpu: Mapping[str, float]
) -> Mapping[str, Sample]:
    if read != length:
        raise BenchmarkError(f"{read} of {length} bytes came back")
    return {
        "throughput": Sample(read / seconds / 1e6, "MB/s"),
        **{name: Sample(used / read * 1e9, "s/GB") for name, used in cpu.items()},
    }


_PEERS = ("read.pravega",)
BENCHMARKS = (
    Benchmark(
        "read.engine",
        "Store in this process: one segment, 2 MiB at a time",
        lambda s: asyncio.run(_engine(s)),
        peers=_PEERS,
    ),
    Benchmark(
        "read.face",
        "Store over its face, another process: 16 MiB at a time, as the pipeline does",
        partial(_remote, face),
        peers=_PEERS,
    ),
    Benchmark(
        "read.pravega",
        "Pravega 0.13.0, all in memory: the same",
        partial(_remote, pravega),
        missing=no_pravega,
    ),
)
