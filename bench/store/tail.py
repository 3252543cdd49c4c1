"""How long after its append an event is with a reader that waits for it, in another process.

The clock is one for all processes.
"""

import asyncio
import json
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from uuid import UUID

from bench.measure import Benchmark, Sample, Setting, percentile
from bench.processes import BenchmarkError, Child, family
from bench.store.append import SEGMENT
from bench.store.load import note
from bench.store.servers import Place, Server, face, no_pravega, pravega, with_sink
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT
from logdrive.model.units import KIB
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.sink import PravegaSink

_EVENTS = 500
_SECONDS_APART = 0.01
_EVENT_BYTES = 1000
_SIZE = 8 + _EVENT_BYTES
_STAMP = struct.Struct("<q")
_PATIENCE = 60.0


async def _write(sink: PravegaSink) -> list[float]:
    """Append an event every 10 ms with its time; return how long each took to be acknowledged."""
    writer, previous, waits = UUID(int=1), ABSENT, list[float]()
    await sink.open_writer(SEGMENT, writer)
    flying = []
    for number in range(1, _EVENTS + 1):
        began = time.monotonic()
        event = frame_event(_STAMP.pack(time.monotonic_ns()).ljust(_EVENT_BYTES))
        stored = sink.append_batch(SEGMENT, writer, [event], 1, previous, number)
        stored.add_done_callback(partial(note, waits, began))
        flying.append(stored)
        previous = number
        await asyncio.sleep(_SECONDS_APART)
    await asyncio.gather(*flying)
    return waits


async def _follow(port: int) -> list[float]:
    """Read the segment's tail until all events are there; return their delays in seconds."""
    late: list[float] = []
    rest = b""
    async with connect_segment_store(SystemTransport(), "127.0.0.1", port) as client:
        place = 0
        print("following", flush=True)
        while len(late) < _EVENTS:
            data = (await client.read_segment(SEGMENT, place, 64 * KIB)).data
            now = time.monotonic_ns()
            place += len(data)
            rest += data
            whole = len(rest) // _SIZE * _SIZE
            late.extend(
                (now - _STAMP.unpack_from(rest, at + 8)[0]) / 1e9 for at in range(0, whole, _SIZE)
            )
            rest = rest[whole:]
    return late


async def _idle(sink: PravegaSink) -> None:
    """Leave behind the segment that `of_stream` made."""


def _tail(place: Place, setting: Setting) -> Mapping[str, Sample]:
    with place(setting) as server:
        with_sink(server, _idle, segments=1)
        late, waits = _both(server, setting)
    return {
        "p50": Sample(percentile(late, 0.5) * 1e3, "ms"),
        "p99": Sample(percentile(late, 0.99) * 1e3, "ms"),
        "ack_p50": Sample(percentile(waits, 0.5) * 1e3, "ms"),
        "ack_p99": Sample(percentile(waits, 0.99) * 1e3, "ms"),
    }


def _both(server: Server, setting: Setting) -> tuple[list[float], list[float]]:
    command = [sys.executable, "-m", "bench.store.tail", str(server.store.port)]
    with family() as children:
        reader = Child(command, log=setting.work / "tail.log", stdout=subprocess.PIPE)
        children.append(reader)
        if reader.output.readline() != b"following\n":
            raise BenchmarkError(f"the reader did not start: {reader.said()}")
        waits = with_sink(server, _write, segments=1)
        if reader.wait(_PATIENCE).code != 0:
            raise BenchmarkError(f"the reader failed: {reader.said()}")
        return json.loads(reader.output.read()), waits


_PEERS = ("tail.pravega",)
BENCHMARKS = (
    Benchmark(
        "tail.face",
        "Store over its face: append → reader in another process, 100 a second of 1 kB",
        partial(_tail, face),
        peers=_PEERS,
    ),
    Benchmark(
        "tail.pravega",
        "Pravega 0.13.0, all in memory: the same",
        partial(_tail, pravega),
        missing=no_pravega,
    ),
)

if __name__ == "__main__":
    print(json.dumps(asyncio.run(_follow(int(sys.argv[1])))))
