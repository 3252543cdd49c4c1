"""Lines of formats to columns in one process: the least that a row of silver costs."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

import orjson
import pyarrow as pa

from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from logdrive.pipeline.decode.lines import split_lines
from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.formats.catalog import make_format
from logdrive.pipeline.formats.format import LogLines

_BATCH = 12 << 20  # bytes parsed at a time: about as many lines as a batch of silver has
_OTHERS = 100_000  # lines of the formats that the log is not in
_RECEIVED = datetime(2026, 1, 1, tzinfo=UTC)

LineMaker = Callable[[int, str], str]


def _application(number: int, line: str) -> str:
    clock = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02},{number % 1000:03}"
    return f"2025-11-21 {clock} INFO [worker-{number % 32}] com.example.shop.Orders: {line[:120]}"


def _json(number: int, line: str) -> str:
    clock = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:00.{number % 1000:03}"
    values = {
        "@timestamp": f"2025-11-21T{clock}Z",
        "level": "INFO",
        "logger": "com.example.shop.Orders",
        "message": line[:60],
        "trace_id": f"{number:016x}",
        "duration_ms": number % 997 / 10,
        "user": {"id": number % 1009},
    }
    return orjson.dumps(values).decode()


def _parse(name: str, make: LineMaker | None = None) -> Callable[[Setting], Mapping[str, Sample]]:
    def parse(setting: Setting) -> Mapping[str, Sample]:
        text = setting.log.read_bytes()
        if make is not None:
            whole = enumerate(text.decode().splitlines()[:_OTHERS])
            text = "".join(f"{make(number, line)}\n" for number, line in whole).encode()
        batches, one = list(_batches(text)), make_format(name)
        rows = sum(len(batch) for batch in batches)
        one.parse(batches[0].slice(0, 1000))

        began = time.process_time()
        read = sum(one.parse(batch).reasons.null_count for batch in batches)
        used = time.process_time() - began
        if read != rows:
            raise BenchmarkError(f"{read} of {rows} lines are {name} lines")
        return {
            "raw_bytes": Sample(len(text) / used / 1e6, "MB/s"),
            "cpu": Sample(used / rows * 1e6, "µs/line"),
        }

    return parse


def _batches(text: bytes) -> Iterator[LogLines]:
    at = 0
    while at < len(text):
        end = text.rfind(b"\n", at, at + _BATCH) + 1
        lines, _ = split_lines([text[at:end]], [at])
        count = len(lines.messages)
        yield LogLines(
            lines.messages,
            pa.repeat(pa.scalar(_RECEIVED, TIME), count),
            pa.nulls(count, pa.string()),
            pa.repeat(pa.scalar("source"), count).dictionary_encode(),
            pa.array(lines.starts),
            pa.array(lines.stops),
        )
        at = end


BENCHMARKS = (
    Benchmark(
        "formats.access",
        "Formats, one core: access lines → columns",
        _parse("access"),
        prepare=_parse("access"),
    ),
    Benchmark(
        "formats.application",
        "Formats, one core: application lines (Hadoop's layout) → columns",
        _parse("hadoop", _application),
        prepare=_parse("hadoop", _application),
    ),
    Benchmark(
        "formats.json",
        "Formats, one core: JSON lines → columns",
        _parse("json", _json),
        prepare=_parse("json", _json),
    ),
)
