"""Segment bytes to Arrow rows in one process, without Spark: the least that a row costs."""

import time
from collections.abc import Mapping
from uuid import UUID

from bench.frames import blocks
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from logdrive.model.batch import BatchHeader
from logdrive.model.framing import frame_event, frame_events
from logdrive.pipeline.decode.decode import Decoder
from logdrive.wire.lumberjack.frames import EVENT

_BATCH_BLOCKS = 3  # what fits a run (rule R3)
_READ = 8 << 20  # bytes of a segment decoded at once
_TAKE = 32 << 20  # bytes after which rows are taken


def batches(setting: Setting, source: UUID = UUID(int=1)) -> list[tuple[bytes, int]]:  # noqa: B008 - immutable
    """Return the log, as *source* sent it, in batches of block records, each with the position that
    it ends at.
    """
    payloads = [frame[EVENT.size :] for frame in blocks(setting.log)]
    made: list[tuple[bytes, int]] = []
    previous = 0
    for first in range(0, len(payloads), _BATCH_BLOCKS):
        batch = payloads[first : first + _BATCH_BLOCKS]
        body = frame_events(batch)
        extents = [_extent(payload) for payload in batch]
        header = BatchHeader(
            kind="data",
            source=str(source),
            origin="00000000-0000-5000-8000-000000000002",
            previous=previous,
            position=extents[-1][0],
            records=len(batch),
            events=sum(lines for _, lines in extents),
            size=len(body),
            received=1_763_700_000_000,
            store="00000000-0000-5000-8000-000000000003",
        )
        previous = extents[-1][0]
        made.append((frame_event(header.encode()) + body, previous))
    return made


def _extent(block: bytes) -> tuple[int, int]:
    """Return the end and the lines of a block record, read from its first bytes."""
    head = block[: block.index(b"}")].split(b":")
    return int(head[3].split(b",")[0]), int(head[4])


def _decode(setting: Setting) -> Mapping[str, Sample]:
    data = b"".join(batch for batch, _ in batches(setting))
    raw = setting.log.stat().st_size
    began = time.process_time()
    decoder, rows, at, taken = Decoder("bench"), 0, 0, 0
    while at < len(data):
        following, _ = decoder.decode_batches("bench/bench/0.#epoch.0", at, data[at : at + _READ])
        if following == at:
            raise BenchmarkError(f"the decoder stands still at {at}")
        at = following
        if at - taken >= _TAKE or at == len(data):
            table, _ = decoder.take_tables()
            rows, taken = rows + table.num_rows, at
    used = time.process_time() - began
    if rows != setting.lines:
        raise BenchmarkError(f"{rows} rows of {setting.lines} lines")
    return {
        "raw_bytes": Sample(raw / used / 1e6, "MB/s"),
        "cpu": Sample(used / setting.lines * 1e6, "µs/line"),
    }


BENCHMARKS = (
    Benchmark(
        "decode.blocks",
        "Decoding, one core: segment bytes of block records → Arrow rows",
        _decode,
        prepare=_decode,
    ),
)
