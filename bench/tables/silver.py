"""Bronze to silver: access logs of the tables' own files into typed columns, on two cores."""

import shutil
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from bench.tables.decode import packed_batches
from logdrive.packs.pack import PackCodec
from logdrive.pipeline.tables.installed import TABLES_PACKAGES

_SEGMENT = "bench/nginx/0.#epoch.0"
_CORES = 2
_TAKE = 64 << 20  # bytes of lines in one file of bronze


def missing_tables() -> str | None:
    """Return what this machine lacks for tables, and how to install that."""
    absent = [name for name in TABLES_PACKAGES if find_spec(name) is None]
    return f"no {', '.join(absent)} here: pip install 'logdrive[tables]'" if absent else None


def _tables(setting: Setting) -> Path:
    return setting.work / f"silver-{setting.lines}"


def _fill_bronze(setting: Setting) -> None:
    """Write the log as files of bronze, once."""
    from logdrive.host.clock import SystemClock
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.bronze.tables import table_paths
    from logdrive.pipeline.bronze.writer import Bronze
    from logdrive.pipeline.bronze.written_range import WrittenRange
    from logdrive.pipeline.decode.decode import Decoder
    from logdrive.pipeline.tables.day_files import write_day_files

    directory = _tables(setting)
    if directory.is_dir():
        return
    data = b"".join(batch for batch, _ in packed_batches(setting, PackCodec.DEFLATE))
    events = table_paths(str(directory))[0]
    with Bronze(str(directory), clock=SystemClock(), disk=SystemDisk()) as tables:
        decoder, at, parts = Decoder("bench", held_bytes=_TAKE), 0, []
        begin = 0
        while at < len(data):
            at, _ = decoder.decode_batches(_SEGMENT, at, data[at : at + _TAKE // 8])
            if decoder.is_full or at == len(data):
                rows, headers = decoder.take_tables()
                files = write_day_files(events, rows)
                parts.append(WrittenRange(_SEGMENT, begin, at, at - begin, files, headers))
                begin = at
        tables.commit_ranges(parts)


def _fill_silver(setting: Setting) -> Mapping[str, Sample]:
    from logdrive.host.clock import SystemClock
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.silver.config import SilverConfig
    from logdrive.pipeline.silver.schema import silver_directory
    from logdrive.pipeline.silver.writer import Silver
    from logdrive.pipeline.tasks import InThreads

    directory = str(_tables(setting))
    shutil.rmtree(silver_directory(directory), ignore_errors=True)
    raw = setting.log.stat().st_size
    rows, began, used = 0, time.perf_counter(), time.process_time()
    tables = Silver(
        directory, SilverConfig(), InThreads(_CORES), clock=SystemClock(), disk=SystemDisk()
    )
    with tables:
        while (step := tables.next_step()) is not None:
            rows += step.rows
    seconds, used = time.perf_counter() - began, time.process_time() - used
    if rows != setting.lines:
        raise BenchmarkError(f"{rows} rows of {setting.lines} lines")
    return {
        "raw_bytes": Sample(raw / seconds / 1e6, "MB/s"),
        "cpu": Sample(used / raw * 1e9, "s/GB"),
    }


BENCHMARKS = (
    Benchmark(
        "silver.access",
        "Silver, two threads: bronze's files of access logs → columns (snappy), committed",
        _fill_silver,
        missing=missing_tables,
        prepare=_fill_bronze,
        finish=lambda setting: shutil.rmtree(_tables(setting), ignore_errors=True),
    ),
)
