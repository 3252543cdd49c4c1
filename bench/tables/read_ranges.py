"""Planning and reading all ranges of a stream, without decoding: what each GB of text costs."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from uuid import UUID

from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from bench.store.append import SEGMENT
from bench.store.read import warm
from bench.store.servers import SCOPE, STREAM, face, with_sink
from bench.tables.decode import packed_batches
from logdrive.model.numbers import ABSENT
from logdrive.model.units import MIB
from logdrive.packs.pack import PackCodec
from logdrive.pipeline.read.offsets import Progress
from logdrive.pipeline.read.planner import Planner
from logdrive.pipeline.read.stream import StreamClient
from logdrive.services.pravega.sink import PravegaSink

_RANGE = 64 * MIB  # raw bytes of a range, as of a task
_WRITER = UUID(int=1)


async def _append(stored: Iterable[bytes], sink: PravegaSink) -> int:
    """Append *stored*, each batch by itself; return their bytes."""
    await sink.open_writer(SEGMENT, _WRITER)
    previous, size = ABSENT, 0
    for number, batch in enumerate(stored, 1):
        pending = sink.append_batch(SEGMENT, _WRITER, [batch], 1, previous, number)
        previous, size = number, size + len(batch)
        if number % 16 == 0:
            await pending
    await pending
    return size


def _read(setting: Setting, *, local: bool) -> Mapping[str, Sample]:
    """Plan the stream and read its ranges, one after the other, from the page cache."""
    raw = setting.log.stat().st_size
    stored = (batch for batch, _ in packed_batches(setting, PackCodec.DEFLATE))
    with face(setting) as server:
        length = with_sink(server, partial(_append, stored), segments=1)
        warm(setting.work / "face_store")
        reader = StreamClient(server.store, SCOPE, STREAM, local_reads=local)
        began, used, served = time.monotonic(), time.process_time(), server.cpu_seconds()
        planner, start = Planner(reader, 1 << 62, _RANGE), Progress({}, {})
        end = planner.plan_micro_batch(start, planner.segment_bounds(), None)
        ranges = planner.cut_ranges(start, end)
        planned, plan_served = time.process_time() - used, server.cpu_seconds() - served
        read = 0
        for one in ranges:
            read += sum(
                len(data) for _, data in reader.read_chunks(one.segment, one.start, one.end)
            )
        seconds, cpu = time.monotonic() - began, time.process_time() - used
        all_served = server.cpu_seconds() - served
    if read != length:
        raise BenchmarkError(f"{read} of {length} bytes came back")
    figures = {"planning": planned + plan_served, "cpu": cpu, "server_cpu": all_served}
    return {
        "raw_bytes": Sample(raw / seconds / 1e6, "MB/s"),
        **{name: Sample(used / raw * 1e9, "s/GB") for name, used in figures.items()},
    }


BENCHMARKS = (
    Benchmark(
        "spark.read_ranges",
        "Planning a stream of packs, and reading it from the store's log files",
        partial(_read, local=True),
    ),
    Benchmark(
        "spark.read_ranges.face",
        "The same over the store's face",
        partial(_read, local=False),
    ),
)
