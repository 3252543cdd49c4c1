"""How soon lines that trickle in are in the table: about 1,000 of them at a time.

`logdrive pipeline run` follows a store in another process. The clock starts when a batch is
acknowledged as durable there, and stops when the commit of the second table that has it is written.
"""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from bench.commands import LOGDRIVE
from bench.measure import Benchmark, Sample, Setting, percentile
from bench.process_tree import tree_usage
from bench.processes import BenchmarkError, Child, family
from bench.store.servers import SCOPE, STREAM, face, with_sink
from bench.tables.commits import Commit, commits
from bench.tables.decode import packed_batches
from bench.tables.fill import missing_spark
from logdrive.model.numbers import ABSENT
from logdrive.packs.pack import PackCodec
from logdrive.services.pravega.sink import PravegaSink

_BATCH_BYTES = 188_000  # about 1,000 lines
_UNCOUNTED, _COUNTED = 10, 60
_SECONDS_APART = 0.5
_PATIENCE_SECONDS = 60.0


async def _write(sink: PravegaSink, batches: list[bytes], begun: asyncio.Event) -> list[float]:
    """Append *batches*, one each half second; return when each was durable."""
    (segment,), writer, previous = sink.segments, UUID(int=1), ABSENT
    await sink.open_writer(segment, writer)
    durable: list[float] = []
    for number, batch in enumerate(batches, 1):
        due = time.time() + _SECONDS_APART
        await sink.append_batch(segment, writer, [batch], 1, previous, number)
        durable.append(time.time())
        previous = number
        begun.set()
        await asyncio.sleep(max(0.0, due - time.time()))
    return durable


def _delays(durable: list[float], made: list[Commit]) -> list[float]:
    """Return how long after it was durable each batch was committed: one row a batch."""
    delays, at = [], 0
    for commit in made:
        delays += [commit.seconds - since for since in durable[at : at + commit.rows]]
        at += commit.rows
    if at != len(durable):
        raise BenchmarkError(f"the table has {at} batches of {len(durable)}")
    return delays


def _run(setting: Setting) -> Mapping[str, Sample]:
    tables = setting.work / "trickled_tables"
    shutil.rmtree(tables, ignore_errors=True)
    batches = [
        batch
        for batch, _ in zip(
            (
                data
                for data, _ in packed_batches(setting, PackCodec.DEFLATE, text_bytes=_BATCH_BYTES)
            ),
            range(_UNCOUNTED + _COUNTED),
            strict=False,
        )
    ]
    if len(batches) < _UNCOUNTED + _COUNTED:
        raise BenchmarkError(f"{setting.lines} lines are too few for so many batches")
    try:
        with face(setting) as server, family() as children:
            uri = f"pravega://127.0.0.1:{server.store.port}/{SCOPE}/{STREAM}"
            command: list[str | Path] = [
                *LOGDRIVE,
                "pipeline",
                "run",
                "--from",
                uri,
                "--to",
                tables,
            ]

            async def trickle(sink: PravegaSink) -> tuple[list[float], list[Commit], float]:
                begun = asyncio.Event()
                writing = asyncio.create_task(_write(sink, batches, begun))
                await begun.wait()  # the stream is there
                child = Child(command, log=setting.work / "trickle.err", stdout=subprocess.DEVNULL)
                children.append(child)
                durable = await writing
                made = await _committed(tables / "bronze" / "batches", len(batches), child)
                return durable, made, tree_usage(child.pid).cpu_seconds

            durable, made, cpu = with_sink(server, trickle, segments=1)
    finally:
        shutil.rmtree(tables, ignore_errors=True)
    counted = _delays(durable, made)[_UNCOUNTED:]
    return {
        "p50": Sample(percentile(counted, 0.5) * 1e3, "ms"),
        "p95": Sample(percentile(counted, 0.95) * 1e3, "ms"),
        "cpu": Sample(cpu / len(made), "s/commit"),
    }


async def _committed(table: Path, count: int, child: Child) -> list[Commit]:
    """Return the commits of *table* once it has *count* rows."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    made = commits(table)
    while sum(commit.rows for commit in made) < count:
        if child.poll() is not None or time.monotonic() > deadline:
            raise BenchmarkError(f"the table does not get {count} batches: {child.said()}")
        await asyncio.sleep(0.1)
        made = commits(table)
    return made


BENCHMARKS = (
    Benchmark(
        "spark.trickle",
        "Pipeline that follows: 1,000 lines each half second → both tables",
        _run,
        missing_spark,
    ),
)
