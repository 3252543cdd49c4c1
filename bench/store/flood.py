"""How long a quiet writer waits for an acknowledgement while another connection floods the store.

Floods are of small messages. Each is written by a process of its own, as fast as it is taken, and
reads all that is answered.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from uuid import UUID

from bench.measure import Benchmark, Sample, Setting, percentile
from bench.processes import BenchmarkError, Child, family
from bench.store.append import SEGMENT
from bench.store.servers import Place, Server, face, no_pravega, pravega, with_sink
from logdrive.host.transport import ByteStream
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT
from logdrive.model.units import KIB
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.sink import PravegaSink
from logdrive.wire.pravega.appends import AppendBlockEnd, SetupAppend
from logdrive.wire.pravega.codec import encode
from logdrive.wire.pravega.control import Hello, KeepAlive
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import GetStreamSegmentInfo, ReadSegment

FLOODS: Mapping[str, int] = {
    "keepalives": 400_000,
    "polls": 20_000,
    "infos": 100_000,
    "set_ups": 100_000,
    "appends": 100_000,
}
"""How many messages of which kind."""

_SECONDS_APART = 0.01
_SECONDS_BEFORE = 0.5
_WRITE_BYTES = 64 * KIB
_EVENT = frame_event(bytes(1000))
_BEYOND = 1 << 40
_GREETED = b"".join(map(bytes, encode(Hello())))
_CODE_BYTES = 4
_PATIENCE = 300.0


def _messages(kind: str, count: int) -> Iterator[Message]:
    """Return the messages of one flood; each writer of set-ups is a new one."""
    writer = UUID(int=1 << 64)
    if kind == "appends":
        yield SetupAppend(0, writer, SEGMENT)
    for number in range(1, count + 1):
        match kind:
            case "keepalives":
                yield KeepAlive()
            case "polls":
                yield ReadSegment(SEGMENT, _BEYOND, KIB, "", number)
            case "infos":
                yield GetStreamSegmentInfo(number, SEGMENT)
            case "set_ups":
                yield SetupAppend(number, UUID(int=writer.int + number), SEGMENT)
            case _:
                yield AppendBlockEnd(writer, 1, b"x", 1, number, number)


async def _flood(kind: str, port: int) -> None:
    """Write the whole flood, then a Hello, and read until the Hello is answered."""
    stream = await SystemTransport().connect("127.0.0.1", port, None)
    pieces = [bytes(part) for message in _messages(kind, FLOODS[kind]) for part in encode(message)]
    await stream.write([_GREETED])
    await _answered(stream)
    if kind == "appends":  # a Pravega takes none before the set-up is answered
        await stream.write([pieces.pop(0)])
        await stream.read()
    flood = b"".join(pieces) + _GREETED
    print("flooding", flush=True)
    await asyncio.sleep(_SECONDS_BEFORE)
    reading = asyncio.create_task(_answered(stream))
    for at in range(0, len(flood), _WRITE_BYTES):
        await stream.write([flood[at : at + _WRITE_BYTES]])
    await reading
    stream.abort()


async def _answered(stream: ByteStream) -> None:
    tail = b""
    while _GREETED[:_CODE_BYTES] not in tail:
        data = await stream.read()
        if not data:
            raise BenchmarkError("the store closed the connection")
        tail = tail[-_CODE_BYTES:] + data


async def _append_beside(flood: Child, sink: PravegaSink) -> list[float]:
    """Append 1 kB every 10 ms until *flood* ends; return how long each took to be acknowledged."""
    writer, number, waits = UUID(int=1), ABSENT, list[float]()
    await sink.open_writer(SEGMENT, writer)
    while flood.poll() is None:
        began, previous = time.monotonic(), number
        number = max(number, 0) + 1
        await sink.append_batch(SEGMENT, writer, [_EVENT], 1, previous, number)
        waits.append(time.monotonic() - began)
        await asyncio.sleep(_SECONDS_APART)
    return waits


async def _idle(sink: PravegaSink) -> None:
    """Leave behind the segment that `of_stream` made."""


def _beside(kind: str, place: Place, setting: Setting) -> Mapping[str, Sample]:
    with place(setting) as server:
        with_sink(server, _idle, segments=1)
        used = server.cpu_seconds()
        waits = _waits(kind, server, setting)
        used = server.cpu_seconds() - used
        return {
            "longest": Sample(max(waits), "s"),
            "p50": Sample(percentile(waits, 0.5) * 1e3, "ms"),
            "server_cpu": Sample(used / FLOODS[kind] * 1e6, "µs/message"),
            "server_rss": server.rss(),
        }


def _waits(kind: str, server: Server, setting: Setting) -> list[float]:
    command = [sys.executable, "-m", "bench.store.flood", kind, str(server.store.port)]
    with family() as children, contextlib.ExitStack() as undo:
        flood = Child(command, log=setting.work / "flood.log", stdout=subprocess.PIPE)
        children.append(flood)
        undo.callback(flood.output.close)
        if flood.output.readline() != b"flooding\n":
            raise BenchmarkError(f"the flood did not start: {flood.said()}")
        waits = with_sink(server, partial(_append_beside, flood), segments=1)
        if flood.wait(_PATIENCE).code != 0:
            raise BenchmarkError(f"the flood failed: {flood.said()}")
        return waits


def _of_kind(kind: str) -> Sequence[Benchmark]:
    """Return the group of one flood."""
    flood_text = (
        f"a quiet writer beside {FLOODS[kind]:,} {kind.replace('_', '-')} on another connection"
    )
    real = f"flood.{kind}.pravega"
    return (
        Benchmark(
            f"flood.{kind}.face",
            f"Store over its face: {flood_text}",
            partial(_beside, kind, face),
            peers=(real,),
        ),
        Benchmark(
            real,
            "Pravega 0.13.0, all in memory: the same",
            partial(_beside, kind, pravega),
            missing=no_pravega,
        ),
    )


GROUPS = tuple(map(_of_kind, FLOODS))

if __name__ == "__main__":
    asyncio.run(_flood(sys.argv[1], int(sys.argv[2])))
