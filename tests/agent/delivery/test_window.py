"""Windows: how many runs go into one, and how they are packed for readers of each dialect (D1)."""

from dataclasses import replace
from typing import cast

import pytest

from agent.delivery.reader import SourceReader
from agent.delivery.session import _split_writes
from agent.delivery.window import (
    OutgoingWindow,
    WindowRoom,
    gather_window,
    pack_window,
    packs_inline,
)
from agent.sources.connection_queue import ConnectionQueue
from agent.sources.registration import SourceState
from agent.sources.source import Source
from logdrive.model.limits import PACK_BYTES, RUN_RECORDS
from logdrive.model.records import DATA, GAP
from logdrive.model.units import KIB, MIB
from logdrive.packs.pack import PackCodec, PackForm, open_pack
from logdrive.records.chunk import TextChunk
from logdrive.records.full_records import FullEncoder
from logdrive.records.run_pack import FramePart, Packing, PendingFrame, RunPack
from logdrive.records.runs import Run
from logdrive.wire.lumberjack.envelope import ZSTD_MAGIC, Codec
from logdrive.wire.lumberjack.frames import (
    JsonRun,
    PackFrame,
    RunFrame,
    WindowFrame,
    json_frames,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1
from logdrive.wire.lumberjack.reader import FrameReader


@pytest.mark.parametrize("codec", ["zstd", "zlib", None])
@pytest.mark.parametrize(
    "payload",
    [b'{"message":"x"}' * 100, b'"' + b"\\u0000" * 120_000 + b'"'],
    ids=["plain", "monotonous"],
)
def test_a_reader_takes_every_window__D1(codec: Codec | None, payload: bytes) -> None:
    data = b"".join(pack_window(json_frames(1, [payload]), 1, codec, 1))
    window, run = FrameReader(LOGDRIVE_1, side="reader", dialect="logdrive/1").receive_data(data)
    assert window == WindowFrame(1)
    assert isinstance(run, JsonRun)
    assert run.payloads == [payload]


def test_zstd_gives_way_to_zlib_where_it_would_look_like_a_bomb__D1() -> None:
    monotonous = json_frames(1, [b'"' + b"\\u0000" * 120_000 + b'"'])
    (head, envelope) = pack_window(monotonous, 1, "zstd", 1)
    assert envelope[6:10] != ZSTD_MAGIC
    (head, envelope) = pack_window(json_frames(1, [b'{"message":"x"}' * 100]), 1, "zstd", 1)
    assert envelope[6:10] == ZSTD_MAGIC
    assert head == WindowFrame(1).encode()


def pack_of(text: bytes) -> RunPack:
    return RunPack(PackForm.TEXT, text, Packing(PackCodec.DEFLATE, 1))


def framed(*texts: bytes) -> list[FramePart]:
    """Return the B and Z frames of a run for each of *texts*, numbered from 1."""
    frames: list[FramePart] = []
    for sequence, text in enumerate(texts, 1):
        run = RunFrame(0, DATA, 0, len(text) << 16 | 1, 0, 0, text.count(b"\n"), 1)
        frames += (run.encode(), PendingFrame(sequence, pack_of(text)))
    return frames


@pytest.mark.parametrize("codec", ["zstd", "zlib", None])
@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize(("lines", "enveloped"), [(1, True), (2, True), (3000, False)])
def test_packs_travel_bare_unless_they_are_very_small__R8(
    codec: Codec | None, count: int, lines: int, enveloped: bool
) -> None:
    texts = [
        b"".join(b"%032x\n" % (7919 * line * one) for line in range(1, 1 + lines))
        for one in range(1, 1 + count)
    ]
    parts = pack_window(framed(*texts), count, codec, 1)
    assert (bytes(parts[1][:2]) == b"2C") == (enveloped and codec is not None)
    window, *frames = FrameReader(LOGDRIVE_1, side="reader", dialect="logdrive/1").receive_data(
        b"".join(parts)
    )
    assert window == WindowFrame(count)
    packs = [frame for frame in frames if isinstance(frame, PackFrame)]
    assert [open_pack(frame.pack)[1] for frame in packs] == texts
    assert [frame.sequence for frame in packs] == list(range(1, 1 + count))


def test_small_packs_of_many_sources_share_their_envelope__R8() -> None:
    texts = [
        b"2026-11-23T01:02:%02d web-%02d GET /orders/%06d 200\n" % (one, one % 7, one * 7919)
        for one in range(60)
    ]
    size = sum(map(len, pack_window(framed(*texts), len(texts), "zlib", 1)))
    assert size < 0.7 * sum(map(len, texts)), "frames and all"


def test_a_thread_compresses_what_is_worth_one() -> None:
    window = OutgoingWindow()
    source = cast("Source", Lines(0, 0))
    small, large = pack_of(b"x" * 1000), pack_of(b"x" * MIB)
    window.add_run(source, Run(DATA, 0, 1, small, 1, 1018, 0), sent=True)
    assert packs_inline(window, "zlib")
    window.add_run(source, Run(DATA, 0, 1, large, 1, MIB, 0), sent=True)
    assert not packs_inline(window, "zlib")
    assert small.pack
    assert large.pack
    again = OutgoingWindow()  # sent once more after a lost connection
    again.add_run(source, Run(DATA, 0, 1, large, 1, MIB, 0), sent=True)
    assert packs_inline(again, "zlib")


def test_full_records_are_encoded_sooner_than_handed_to_a_thread() -> None:
    encoder = FullEncoder({}, "/var/log/a.log", "0" * 32, lambda: 0)
    chunk = TextChunk.from_whole_file(b"GET /orders/7 200\n" * 900)
    (run,) = encoder.encode_chunk(chunk, 0, 0)
    window = OutgoingWindow()
    window.add_run(cast("Source", Lines(0, 0)), run, sent=True)
    assert window.size > 64 * KIB
    assert packs_inline(window, "zlib")


@pytest.mark.parametrize(
    "sizes", [[6, 100], [6, 65_536], [6, 65_537], [6, 300_000], [200_000, 1, 1], []]
)
def test_writes_are_short_and_leave_nothing_out(sizes: list[int]) -> None:
    parts = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    slices = list(_split_writes(parts))
    assert b"".join(b"".join(each) for each in slices) == b"".join(parts)
    assert all(sum(map(len, each)) <= 65_536 + 64 for each in slices)
    if sum(sizes) <= 65_536 + 64:
        assert len(slices) <= 1, "what is short goes in one write"


class Lines:
    """An open source that has *left* more runs, each of *records* records and *size* bytes."""

    state, epoch, backlog_bytes = SourceState.OPEN, 1, 0

    def give_back_raw_text(self) -> None:
        """Do nothing: it keeps none."""

    def __init__(self, size: int, records: int, left: int = 1_000_000, ahead: int = 1) -> None:
        self._size, self._records, self.left, self._ahead = size, records, left, ahead
        self._read = 0

    @property
    def has_more(self) -> bool:
        return self.left > 0

    def next_unsent_run(self) -> Run | None:
        """Return the next run of those that were read."""
        if self._read == 0:
            return None
        self._read, self.left = self._read - 1, self.left - 1
        return Run(DATA, 0, 1, [b"x"] * self._records, self._records, self._size, 0)

    def read(self) -> None:
        self._read = min(self._ahead, self.left)


class Reads:
    """A source reader that takes the runs of `Lines`."""

    def read_next_run(self, source: Lines) -> Run | None:
        source.read()
        return source.next_unsent_run()


def gathered(room: WindowRoom, *sources: Lines) -> OutgoingWindow:
    """Return the window that *sources*, all ready, make in *room*."""
    demand = ConnectionQueue()
    for source in sources:
        demand.enqueue(cast("Source", source), 0.0)
    return gather_window(demand, cast("SourceReader", Reads()), room, 0.0)


@pytest.mark.parametrize(
    ("size", "runs"),
    [
        (256 * KIB, 4),  # the fourth fills it
        (255_000, 4),  # blocks are a little less than their text: these fill it, too
        (15 * MIB // 16 // 4, 4),
        (15 * MIB // 16 // 4 - 1, 5),  # just not full
        (2 * MIB, 1),  # one that is larger than a window goes by itself
        (1, 512),  # so many at most, however little they are
    ],
)
@pytest.mark.parametrize("ahead", [1, 3, 1000])
def test_a_window_takes_runs_until_it_is_full_and_none_more__D1(
    size: int, runs: int, ahead: int
) -> None:
    """The runs come from one read each, or several from one read."""
    window = gathered(WindowRoom(MIB), Lines(size, 1, ahead=ahead))
    assert len(window.runs) == runs
    assert window.size == runs * size


def test_a_window_of_long_lines_is_bounded_by_their_text() -> None:
    """A line of NULs is compressed to a thousandth, before its window takes the next one."""
    limit = WindowRoom(MIB).text

    class LongLines(Lines):
        def next_unsent_run(self) -> Run | None:
            line = super().next_unsent_run()
            return None if line is None else replace(line, number=PACK_BYTES << 16)

    window = gathered(WindowRoom(MIB), LongLines(4 * KIB, 1, ahead=3))
    assert len(window.runs) == limit // PACK_BYTES
    gap = Run(GAP, 0, 1 << 60, [b"x"], 0, 1, 0)
    window = OutgoingWindow()
    window.add_run(cast("Source", Lines(1, 1)), gap, sent=True)
    assert WindowRoom(MIB).has_room_for(window), "a gap has no text"


def test_many_sources_with_a_line_each_make_windows_of_512_runs() -> None:
    demand, sources = ConnectionQueue(), [Lines(100, 1, left=1) for _ in range(1100)]
    for source in sources:
        demand.enqueue(cast("Source", source), 0.0)
    windows = [
        gather_window(demand, cast("SourceReader", Reads()), WindowRoom(MIB), 0.0) for _ in range(4)
    ]
    assert [len(window.runs) for window in windows] == [512, 512, 76, 0]


@pytest.mark.parametrize(("each", "runs"), [(1, 9), (3, 3), (4, 3), (9, 1), (10, 1)])
def test_a_window_takes_no_run_more_once_it_has_its_records(each: int, runs: int) -> None:
    window = gathered(WindowRoom(MIB, records=9), Lines(100, each))
    assert (len(window.runs), window.records) == (runs, runs * each)


def test_the_records_of_the_largest_window_are_what_a_reader_takes__D1() -> None:
    window = gathered(WindowRoom(MIB), Lines(1000, RUN_RECORDS))
    assert LOGDRIVE_1.window - RUN_RECORDS <= window.records <= LOGDRIVE_1.window
    assert WindowRoom(MIB).records == LOGDRIVE_1.window - RUN_RECORDS, (
        "a last run of the most records still fits"
    )
