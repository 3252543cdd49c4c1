"""Stored bytes to a durable file of rows, as a task of the pipeline does it, without Spark.

Each run is a process of its own, so that its loops can be those in Python.
`python -m bench.tables.decode_file SEGMENT DIRECTORY` is that process.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.commands import IN_PYTHON
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError, Child, demand_success, family, peak_rss
from bench.tables.decode import batches, packed_batches
from logdrive.host.heap import keep_freed_memory
from logdrive.packs.pack import PackCodec
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.schema import EVENTS
from logdrive.pipeline.tables.files import EventFile

_READ = 8 << 20  # bytes of a segment decoded at once
_WARM_UP = 1  # rounds that are not counted
_ROUNDS = 3  # of which the one that took the least counts


@dataclass(frozen=True, slots=True)
class _Done:
    """What a process tells of its work."""

    cpu_seconds: float
    rows: int
    stored: int  # bytes of the file
    peak_rss: int  # bytes


def _write(segment: Path, directory: Path) -> _Done:
    """Write the batches in *segment* as one file, and remove it."""
    began = time.process_time()
    decoder, at, rest = Decoder("bench"), 0, b""
    with segment.open("rb") as source, EventFile(str(directory), EVENTS) as file:
        while data := source.read(_READ):
            rest += data
            while True:
                at, used = decoder.decode_batches("bench/bench/0.#epoch.0", at, rest)
                rest = rest[used:]
                if not decoder.is_full:
                    break
                file.write_row_group(decoder.take_tables()[0])
        file.write_row_group(decoder.take_tables()[0])
    used_seconds = time.process_time() - began
    added = file.added_file
    if added is None or rest:
        raise BenchmarkError(
            f"{len(rest)} bytes of {segment} are no whole batch, or there are none"
        )
    (directory / added.name).unlink()
    return _Done(used_seconds, added.rows, added.size, peak_rss(os.getpid()))


def _run(setting: Setting, form: str, environment: Mapping[str, str]) -> Mapping[str, Sample]:
    segment = str(_segment(setting, form))
    command = [sys.executable, "-m", "bench.tables.decode_file", segment, str(setting.work)]
    with family() as children:
        child = Child(
            command,
            log=setting.work / "decode_file.err",
            stdout=subprocess.PIPE,
            environment=os.environ | environment,
        )
        children.append(child)
        child.wait(setting.seconds(10_000))
        demand_success(children)
        done = msgspec.json.decode(child.output.read(), type=_Done)
    if done.rows != setting.lines:
        raise BenchmarkError(f"{done.rows} rows of {setting.lines} lines")
    raw = setting.log.stat().st_size
    return {
        "raw_bytes": Sample(raw / done.cpu_seconds / 1e6, "MB/s"),
        "cpu": Sample(done.cpu_seconds / raw * 1e9, "s/GB"),
        "file_bytes": Sample(done.stored / raw, "of raw"),
        "peak_rss": Sample(done.peak_rss / 2**20, "MiB"),
    }


def _segment(setting: Setting, form: str) -> Path:
    return setting.work / f"decode-{form}.segment"


def _blocks(setting: Setting) -> Iterable[bytes]:
    return (batch for batch, _ in batches(setting))


def _packs(codec: PackCodec) -> Callable[[Setting], Iterable[bytes]]:
    return lambda setting: (batch for batch, _ in packed_batches(setting, codec))


def _benchmark(
    name: str, title: str, make: Callable[[Setting], Iterable[bytes]], plain: bool
) -> Benchmark:
    def prepare(setting: Setting) -> None:
        with _segment(setting, name).open("wb") as segment:
            segment.writelines(make(setting))

    return Benchmark(
        f"decode.file_{name}_python_loops" if plain else f"decode.file_{name}",
        "the same, with the loops in Python"
        if plain
        else f"One task without Spark, one core: stored {title} → parquet file (snappy, synced)",
        lambda setting: _run(setting, name, IN_PYTHON if plain else {}),
        prepare=prepare,
        finish=lambda setting: _segment(setting, name).unlink(missing_ok=True),
    )


BENCHMARKS = tuple(
    _benchmark(name, title, make, plain)
    for name, title, make in (
        ("packed", "packs (deflate)", _packs(PackCodec.DEFLATE)),
        ("packed_zstd", "packs (zstd)", _packs(PackCodec.ZSTD)),
        ("blocks", "block records", _blocks),
    )
    for plain in (False, True)
)


def _main(segment: Path, directory: Path) -> None:
    keep_freed_memory()  # as the processes do that Spark's workers come from
    done = [_write(segment, directory) for _ in range(_WARM_UP + _ROUNDS)]
    least = min(done[_WARM_UP:], key=lambda one: one.cpu_seconds)
    sys.stdout.buffer.write(msgspec.json.encode(least))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
