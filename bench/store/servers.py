"""Servers of Pravega's protocol for one driver: logdrive's own store, and a real Pravega."""

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar
from uuid import UUID

from bench.measure import Sample, Setting
from bench.processes import BenchmarkError, Child, family, free_port, peak_rss, wait_for_listener
from bench.store.load import Appended, Load, append_all
from logdrive.errors import LogdriveError
from logdrive.host.clock import SystemClock
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.cluster import open_cluster
from logdrive.services.pravega.sink import PravegaSink
from tests.pravega.real import MissingError, fetch, real_pravega

T = TypeVar("T")

SCOPE, STREAM = "bench", "bench"
_SEGMENTS = 4
_HEAP = "3g"  # it keeps in memory all that it is given
_CACHE_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Server:
    """A running server of Pravega's protocol."""

    service: Target  # address for a sink
    store: Target  # address of the segment store, for reading
    pid: int  # of its process

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that it has used so far."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def rss(self) -> Sample:
        """Return its peak memory."""
        return Sample(peak_rss(self.pid) / 2**20, "MiB")


Place = Callable[[Setting], contextlib.AbstractContextManager[Server]]


@contextlib.contextmanager
def face(setting: Setting) -> Iterator[Server]:
    """Run `logdrive store run` on a new store, which is removed afterwards."""
    path, config = setting.work / "face_store", setting.work / "face_store.toml"
    shutil.rmtree(path, ignore_errors=True)
    try:
        with family() as children:
            port = free_port()
            config.write_text(
                f'[store]\npath = "{path}"\n[listen.pravega]\naddress = "127.0.0.1:{port}"\n'
            )
            program = os.path.join(os.path.dirname(sys.executable), "logdrive")
            child = Child(
                [program, "store", "run", "--config", config, "--log-level", "warning"],
                log=setting.work / "face_store.log",
            )
            children.append(child)
            wait_for_listener(port, child)
            target = Target("127.0.0.1", port)
            yield Server(target, target, child.pid)
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def pravega(setting: Setting) -> Iterator[Server]:
    """Run a Pravega 0.13.0, all in memory."""
    path = setting.work / "pravega"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        with real_pravega(
            path, f"pravegaservice.cache.size.max={_CACHE_BYTES}", heap=_HEAP
        ) as server:
            yield Server(
                Target("127.0.0.1", server.controller),
                Target("127.0.0.1", server.store),
                server.pid,
            )
    except (MissingError, RuntimeError) as error:
        raise BenchmarkError(str(error)) from error
    finally:
        shutil.rmtree(path, ignore_errors=True)


def no_pravega() -> str | None:
    """Say why a real Pravega can't be run here; fetch it where it can."""
    try:
        fetch()
    except MissingError as error:
        return str(error)
    return None


def with_sink(
    server: Server, use: Callable[[PravegaSink], Awaitable[T]], *, segments: int = _SEGMENTS
) -> T:
    """Return what *use* does with a sink onto a stream at *server*, which is made."""

    async def main() -> T:
        async with open_cluster(
            SystemTransport(), server.service, clock=SystemClock(), random=Random(1)
        ) as service:
            sink = await PravegaSink.open_stream(
                service, SCOPE, STREAM, segments=segments, store_id=UUID(int=1)
            )
            return await use(sink)

    try:
        return asyncio.run(main())
    except LogdriveError as error:
        raise BenchmarkError(str(error)) from error


async def append_through(sink: PravegaSink, load: Load, setting: Setting) -> Appended:
    """Append *load*; each writer asks for its number before, as a receiver does for an agent."""
    writers = [UUID(int=1 + number) for number in range(load.writers)]
    segments = [sink.segment_for(writer.hex) for writer in writers]
    for segment, writer in zip(segments, writers, strict=True):
        await sink.open_writer(segment, writer)

    def submit(writer: int, data: bytes, previous: int, number: int) -> "asyncio.Future[object]":
        return sink.append_batch(segments[writer], writers[writer], [data], 1, previous, number)  # type: ignore[return-value]

    return await append_all(load, setting, submit)


__all__ = [
    "Path",
    "Place",
    "Server",
    "append_through",
    "face",
    "no_pravega",
    "pravega",
    "with_sink",
]
