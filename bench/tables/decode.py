"""Segment bytes to Arrow rows in one process, without Spark: the least that a row costs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import UUID

from msgspec import UNSET

from bench.frames import blocks
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from logdrive.model.batch import BatchHeader, HeaderForm
from logdrive.model.framing import frame_event, frame_events
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.pipeline.decode.decode import Decoder
from logdrive.records.pack_sizes import LARGE_TEXT_BYTES
from logdrive.wire.lumberjack.frames import EVENT

_BATCH_BLOCKS = 3  # what fits a run (rule R3)
_READ = 8 << 20  # bytes of a segment decoded at once
_TAKE = 32 << 20  # bytes of rows after which they are taken


def batches(setting: Setting, source: UUID = UUID(int=1)) -> list[tuple[bytes, int]]:  # noqa: B008 - immutable
    """Return the log, as *source* sent it, in batches of block records, each with the position that
    it ends at.
    """
    payloads = [frame[EVENT.size :] for frame in blocks(setting.log)]
    made: list[tuple[bytes, int]] = []
    previous = 0
    for first in range(0, len(payloads), _BATCH_BLOCKS):
        batch = payloads[first : first + _BATCH_BLOCKS]
        extents = [_extent(payload) for payload in batch]
        position, events = extents[-1][0], sum(lines for _, lines in extents)
        made.append((_batch(source, previous, position, batch, events), position))
        previous = position
    return made


def _batch(
    source: UUID,
    previous: int,
    position: int,
    records: Sequence[bytes],
    events: int,
    form: HeaderForm | None = None,
) -> bytes:
    body = frame_events(records)
    header = BatchHeader(
        kind="data",
        form=form or UNSET,
        source=str(source),
        origin="00000000-0000-5000-8000-000000000002",
        previous=previous,
        position=position,
        records=len(records),
        events=events,
        size=len(body),
        received=1_763_700_000_000,
        store="00000000-0000-5000-8000-000000000003",
    )
    return frame_event(header.encode()) + body


def packed_batches(
    setting: Setting,
    codec: PackCodec,
    source: UUID = UUID(int=1),  # noqa: B008 - immutable
    text_bytes: int = LARGE_TEXT_BYTES,
) -> Iterator[tuple[bytes, int]]:
    """Yield the log, as *source* sent it, in batches of one pack each, with where each ends.

    A pack has at most *text_bytes* of lines.
    """
    text, at = setting.log.read_bytes(), 0
    while at < len(text):
        end = text.rfind(b"\n", at, at + text_bytes) + 1
        part = text[at:end]
        pack = make_pack(PackForm.TEXT, part, codec)
        yield _batch(source, at, end, [pack], part.count(b"\n"), "text"), end
        at = end


def _extent(block: bytes) -> tuple[int, int]:
    """Return the end and the lines of a block record, read from its first bytes."""
    head = block[: block.index(b"}")].split(b":")
    return int(head[3].split(b",")[0]), int(head[4])


def _decode_blocks(setting: Setting) -> Mapping[str, Sample]:
    return _decode(setting, b"".join(batch for batch, _ in batches(setting)))


def _decode_packs(codec: PackCodec) -> Callable[[Setting], Mapping[str, Sample]]:
    def decode(setting: Setting) -> Mapping[str, Sample]:
        return _decode(setting, b"".join(batch for batch, _ in packed_batches(setting, codec)))

    return decode


def _decode(setting: Setting, data: bytes) -> Mapping[str, Sample]:
    raw = setting.log.stat().st_size
    began = time.process_time()
    decoder, rows, at = Decoder("bench", held_bytes=_TAKE), 0, 0
    while at < len(data):
        following, _ = decoder.decode_batches("bench/bench/0.#epoch.0", at, data[at : at + _READ])
        if following == at:
            raise BenchmarkError(f"the decoder stands still at {at}")
        at = following
        if decoder.is_full or at == len(data):
            rows += decoder.take_tables()[0].num_rows
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
        _decode_blocks,
        prepare=_decode_blocks,
    ),
    Benchmark(
        "decode.packed",
        "Decoding, one core: segment bytes of packs (deflate) → Arrow rows",
        _decode_packs(PackCodec.DEFLATE),
        prepare=_decode_packs(PackCodec.DEFLATE),
    ),
    Benchmark(
        "decode.packed_zstd",
        "Decoding, one core: segment bytes of packs (zstd) → Arrow rows",
        _decode_packs(PackCodec.ZSTD),
        prepare=_decode_packs(PackCodec.ZSTD),
    ),
)
