"""The Lumberjack codec alone, one process, one core: what a line costs before any socket or disk.

CPU time per line.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from uuid import UUID

from bench.frames import full
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from logdrive.kernel.loops import count_lines
from logdrive.model import records
from logdrive.model.limits import BLOCK_TEXT_BYTES, TAIL_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.packs.contents import open_run
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.records.pack_sizes import LARGE_TEXT_BYTES, TEXT_BYTES
from logdrive.wire.lumberjack.envelope import pack, unpack
from logdrive.wire.lumberjack.frames import (
    EVENT,
    SHORT,
    EnvelopeFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
    json_frames,
    pack_frame,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.plain_windows import WindowReader
from logdrive.wire.lumberjack.reader import FrameReader
from logdrive.wire.lumberjack.run_reader import RunReader, RunReceived

_READ = 256 * 1024  # bytes a socket gives at most at once
_RUN_BLOCKS = 3  # whole blocks that fit a run (rule R3)
_WINDOW = 4096  # full records in one plain window
_MOST_LINES = 200_000  # enough for a steady figure


def _text(setting: Setting) -> tuple[bytes, int]:
    """Return the log's first lines and how many they are."""
    with setting.log.open("rb") as file:
        lines = list(islice(file, _MOST_LINES))
    return b"".join(lines), len(lines)


def block_stream(data: bytes) -> Iterator[bytes]:
    """Yield what a writer of `logdrive/1` sends for *data*: S, then windows of one packed run."""
    yield _source().encode()
    start = previous = sequence = 0
    while start < len(data):
        payloads: list[bytes] = []
        events = 0
        while start < len(data) and len(payloads) < _RUN_BLOCKS:
            end = _whole_lines(data, start, BLOCK_TEXT_BYTES)
            text = data[start:end]
            lines = text.count(b"\n")
            payloads.append(records.block_record(start, end, lines, text.decode()))
            start, events = end, events + lines
        number = number_of(start, data[start - TAIL_BYTES : start])
        run = RunFrame(0, records.DATA, previous, number, 0, 0, events, len(payloads))
        yield (
            WindowFrame(len(payloads)).encode()
            + EnvelopeFrame(pack([run.encode(), *json_frames(sequence + 1, payloads)])).encode()
        )
        sequence, previous = sequence + len(payloads), number


def pack_stream(data: bytes, codec: PackCodec = PackCodec.DEFLATE) -> Iterator[bytes]:
    """Yield what a writer of `logdrive/1` sends for *data*: S, then windows of one pack each."""
    yield _source().encode()
    start = previous = sequence = 0
    most = TEXT_BYTES if codec is PackCodec.STORED else LARGE_TEXT_BYTES
    while start < len(data):
        end = _whole_lines(data, start, most)
        sequence, number = sequence + 1, number_of(end, data[max(0, end - TAIL_BYTES) : end])
        run = RunFrame(
            0, records.DATA, previous, number, 0, 0, count_lines(data, start, end), records=1
        )
        pack = make_pack(PackForm.TEXT, data[start:end], codec)
        yield b"".join([WindowFrame(1).encode(), run.encode(), *pack_frame(sequence, pack)])
        start, previous = end, number


def _source() -> SourceFrame:
    return SourceFrame(0, UUID(int=1), b'{"host":"web-01","path":"/var/log/nginx/access.log"}')


def _whole_lines(data: bytes, start: int, most: int) -> int:
    """Return the end of the whole lines from *start* that have *most* bytes or fewer."""
    if len(data) - start <= most:
        return len(data)
    return data.rindex(b"\n", start, start + most) + 1


def _full_stream(payloads: list[bytes]) -> Iterator[bytes]:
    """Yield what a writer of plain Lumberjack v2 sends: windows of 4,096 events, each packed."""
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


def runs_in(stream: bytes) -> list[RunReceived]:
    """Return the runs in what a writer of `logdrive/1` has sent."""
    frames = FrameReader(LOGDRIVE_1, side="reader", dialect="logdrive/1")
    order = RunReader()
    return [
        given
        for piece in _slices(stream)
        for given in order.check_frames(frames.receive_data(piece))
        if isinstance(given, RunReceived)
    ]


def _blocks(setting: Setting) -> Mapping[str, Sample]:
    data, lines = _text(setting)
    sent: list[bytes] = []

    def write() -> int:
        sent.extend(block_stream(data))
        return lines

    def read() -> int:
        return sum(given.run.events for given in runs_in(stream))

    writing = _timed(write, lines)
    stream = b"".join(sent)
    return _figures(writing, _timed(read, lines), _inflating(sent[1:], lines), stream, lines)


def _packed(setting: Setting, codec: PackCodec) -> Mapping[str, Sample]:
    data, lines = _text(setting)
    sent: list[bytes] = []
    runs: list[RunReceived] = []

    def write() -> int:
        sent.extend(pack_stream(data, codec))
        return lines

    def read() -> int:
        runs.extend(runs_in(stream))
        return sum(given.run.events for given in runs)

    def opened() -> int:
        for given in runs:
            open_run(
                given.payloads[0],
                previous=position_of(given.run.previous),
                position=position_of(given.run.number),
                events=given.run.events,
                skipped=0,
            )
        return lines

    writing = _timed(write, lines)
    stream = b"".join(sent)
    return {
        "write_cpu": Sample(writing, "µs/line"),
        "read_cpu": Sample(_timed(read, lines), "µs/line"),
        "open_cpu": Sample(_timed(opened, lines), "µs/line"),
        "wire_bytes": Sample(len(stream) / lines, "B/line"),
    }


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
        "codec.packed",
        "Codec, logdrive/1: text → packs; stream → runs as the store takes them; packs → text",
        partial(_packed, codec=PackCodec.DEFLATE),
    ),
    Benchmark("codec.packed_zstd", "The same with zstd", partial(_packed, codec=PackCodec.ZSTD)),
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
