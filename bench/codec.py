"""The Lumberjack codec alone, one process, one core: what a line costs before any socket or disk.

CPU time per line.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from uuid import UUID

from bench.frames import full
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from logdrive.model import records
from logdrive.model.limits import BLOCK_TEXT_BYTES
from logdrive.model.numbers import number_of
from logdrive.wire.lumberjack.envelope import pack, unpack
from logdrive.wire.lumberjack.frames import (
    EVENT,
    SHORT,
    EnvelopeFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
    json_frames,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.plain_windows import WindowReader
from logdrive.wire.lumberjack.reader import FrameReader
from logdrive.wire.lumberjack.run_reader import RunReader, RunReceived

_READ = 256 * 1024  # bytes a socket gives at most at once
_RUN_BLOCKS = 3  # whole blocks that fit a run (rule R3)
_WINDOW = 2048  # full records in one plain window
_MOST_LINES = 200_000  # enough for a steady figure


def _text(setting: Setting) -> tuple[bytes, int]:
    """Return the log's first lines and how many they are."""
    with setting.log.open("rb") as file:
        lines = list(islice(file, _MOST_LINES))
    return b"".join(lines), len(lines)


def block_stream(data: bytes) -> Iterator[bytes]:
    """Yield what a writer of `logdrive/1` sends for *data*: S, then windows of one packed run."""
    yield SourceFrame(
        0, UUID(int=1), b'{"host":"web-01","path":"/var/log/nginx/access.log"}'
    ).encode()
    start = previous = sequence = 0
    while start < len(data):
        payloads: list[bytes] = []
        events = 0
        while start < len(data) and len(payloads) < _RUN_BLOCKS:
            end = (
                len(data)
                if len(data) - start <= BLOCK_TEXT_BYTES
                else data.rindex(b"\n", start, start + BLOCK_TEXT_BYTES) + 1
            )
            text = data[start:end]
            lines = text.count(b"\n")
            payloads.append(records.block_record(start, end, lines, text.decode()))
            start, events = end, events + lines
        number = number_of(start, data[start - 256 : start])
        run = RunFrame(0, records.DATA, previous, number, 0, 0, events, len(payloads))
        yield (
            WindowFrame(len(payloads)).encode()
            + EnvelopeFrame(pack([run.encode(), *json_frames(sequence + 1, payloads)])).encode()
        )
        sequence, previous = sequence + len(payloads), number


def _full_stream(payloads: list[bytes]) -> Iterator[bytes]:
    """Yield what a writer of plain Lumberjack v2 sends: windows of 2,048 events, each packed."""
    for start in range(0, len(payloads), _WINDOW):
        window = payloads[start : start + _WINDOW]
        yield (
            WindowFrame(len(window)).encode() + EnvelopeFrame(pack(json_frames(1, window))).encode()
        )


def _payloads(setting: Setting) -> list[bytes]:
    return [frame[EVENT.size :] for frame in islice(full(setting.log), _MOST_LINES)]


def _slices(stream: bytes) -> Iterator[bytes]:
    return (stream[at : at + _READ] for at in range(0, len(stream), _READ))


def _timed(work: Callable[[], int], lines: int) -> float:
    """Return µs of CPU a line. *work* says how many lines it saw, which must be all."""
    began = time.process_time()
    seen = work()
    used = time.process_time() - began
    if seen != lines:
        raise BenchmarkError(f"{seen} of {lines} lines came through")
    return used / lines * 1e6


def _blocks(setting: Setting) -> Mapping[str, Sample]:
    data, lines = _text(setting)
    sent: list[bytes] = []

    def write() -> int:
        sent.extend(block_stream(data))
        return lines

    def read() -> int:
        frames, order, seen = (
            FrameReader(LOGDRIVE_1, side="reader", dialect="logdrive/1"),
            RunReader(),
            0,
        )
        for piece in _slices(stream):
            for given in order.check_frames(frames.receive_data(piece)):
                if isinstance(given, RunReceived):
                    seen += given.run.events
        return seen

    writing = _timed(write, lines)
    stream = b"".join(sent)
    return _figures(writing, _timed(read, lines), _inflating(sent[1:], lines), stream, lines)


def _full(setting: Setting) -> Mapping[str, Sample]:
    payloads = _payloads(setting)
    lines = len(payloads)
    sent: list[bytes] = []

    def write() -> int:
        sent.extend(_full_stream(payloads))
        return lines

    def read() -> int:
        frames, order, seen = (
            FrameReader(PLAIN_LUMBERJACK, side="reader", dialect="lumberjack"),
            WindowReader(),
            0,
        )
        for piece in _slices(stream):
            for batch in order.group_frames(frames.receive_data(piece)):
                seen += batch.count
        return seen

    writing = _timed(write, lines)
    stream = b"".join(sent)
    return _figures(writing, _timed(read, lines), _inflating(sent, lines), stream, lines)


def _inflating(sent: list[bytes], lines: int) -> float:
    """Return the part of reading that inflating takes: each of *sent* is a W and a C."""

    def inflate() -> int:
        for piece in sent:
            unpack(piece[2 * SHORT.size :], PLAIN_LUMBERJACK, zstd=True, exact=True)
        return lines

    return _timed(inflate, lines)


def _figures(
    writing: float, reading: float, inflating: float, stream: bytes, lines: int
) -> Mapping[str, Sample]:
    return {
        "write_cpu": Sample(writing, "µs/line"),
        "read_cpu": Sample(reading, "µs/line"),
        "read_cpu_of_that_inflate": Sample(inflating, "µs/line"),
        "wire_bytes": Sample(len(stream) / lines, "B/line"),
    }


BENCHMARKS = (
    Benchmark(
        "codec.blocks",
        "Codec, logdrive/1: text → block records → packed runs; stream → runs as the "
        "store takes them",
        _blocks,
    ),
    Benchmark(
        "codec.full_records",
        "Codec, Lumberjack v2: full records → packed windows; stream → events as the "
        "store takes them",
        _full,
    ),
)
