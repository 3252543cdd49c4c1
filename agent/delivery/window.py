"""Windows: the runs that are sent and acknowledged together. Gathers them fairly and packs them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.delivery.reader import SourceReader
from agent.sources.connection_queue import ConnectionQueue
from agent.sources.source import Source
from logdrive.model.framing import Part
from logdrive.model.limits import PACK_BYTES, RUN_RECORDS
from logdrive.model.numbers import position_of
from logdrive.model.records import DATA
from logdrive.model.units import KIB
from logdrive.records.run_pack import FramePart, PendingFrame, RunPack, encode_parts
from logdrive.records.runs import Run
from logdrive.wire.lumberjack.envelope import Codec, pack
from logdrive.wire.lumberjack.frames import VERSION_2, EnvelopeFrame, WindowFrame
from logdrive.wire.lumberjack.limits import LOGDRIVE_1

_SMALL_BYTES: Final = 4 * KIB
"""Below this size zstd takes less time than handing the window to a thread."""
_INLINE_BYTES: Final = 64 * KIB
"""Packs of no more than this are compressed sooner than handed to a thread and back."""
_SMALL_RUN: Final = 1 * KIB
"""Packs that are smaller, on average, are put into an envelope: so little text compresses badly by
itself, and shares much with its neighbours.
"""
_SAFE_RATIO: Final = LOGDRIVE_1.ratio - 100
"""A window that zstd compresses more than this is compressed by zlib: readers refuse the ratio."""
_ZLIB_LEVEL: Final = 3
"""Highest level of zlib: higher ones are slow."""
_FULL: Final = 15 / 16
"""A window this full takes no further run: four blocks are a little less than four times their
text.
"""


@dataclass(slots=True)
class OutgoingWindow:
    """A window in the making."""

    runs: list[tuple[Source, int, Run]] = field(default_factory=list)
    """Each run with its source and the epoch in which it was sent."""
    records: int = 0
    """How many J, Z or D frames they make."""
    size: int = 0
    """Encoded bytes of these; of packs that are not compressed yet, the most they can take."""
    text: int = 0
    """Bytes of files in these."""
    pending: bool = False
    """Whether it has packs that are not compressed yet."""

    def add_run(self, source: Source, run: Run, *, sent: bool) -> None:
        """Add a run. One that is not *sent* makes no frames, and is acknowledged in its turn."""
        self.runs.append((source, source.epoch, run))
        if sent:
            self.records += len(run.records)
            self.size += run.size
            if run.kind == DATA:
                self.text += run.position - position_of(run.previous)
            records = run.records
            self.pending |= isinstance(records, RunPack) and not records.is_compressed


@dataclass(frozen=True, slots=True)
class WindowRoom:
    """Limits of a window."""

    size: int
    """Bytes of its records."""
    records: int = LOGDRIVE_1.window - RUN_RECORDS
    """With this many records it takes no further run, so that the last one still fits."""
    runs: int = 512
    """Runs: thousands of sources with a line each must not hold up the event loop."""
    text: int = 4 * PACK_BYTES
    """Bytes of files: long lines that compress very well are compressed while it is gathered, and
    half a gigabyte of them must not hold up the event loop.
    """
    marks: bool = True
    """Whether the dialect carries gaps and ends."""

    def has_room_for(self, window: OutgoingWindow) -> bool:
        """Return whether another run may be added to *window*."""
        return (
            window.size < self.size * _FULL
            and window.records < self.records
            and len(window.runs) < self.runs
            and window.text < self.text
        )


def gather_window(
    send_queue: ConnectionQueue, source_reader: SourceReader, room: WindowRoom, now: float
) -> OutgoingWindow:
    """Return a window of the sources that have waited longest, one read of each.

    Sources with more to send are enqueued again, and have another turn while there is room.
    """
    window = OutgoingWindow()
    while room.has_room_for(window) and (source := send_queue.next_to_send()) is not None:
        first = run = source_reader.read_next_run(source)
        while run is not None:
            window.add_run(source, run, sent=room.marks or run.mark is None)
            # One read may make several runs: all of them go, so that few sources keep any.
            run = source.next_unsent_run() if room.has_room_for(window) else None
        # a source that gave nothing can't be read now: its input enqueues it again, unless it is
        # to be read no faster
        if first is None and (until := source_reader.waits_until(source)) is not None:
            send_queue.hold(source, until)
        if first is not None and source.has_more:
            # else thousands of sources might each keep a line of 4 MiB until their next turn
            if send_queue.others_wait:
                source.give_back_raw_text()
            send_queue.enqueue(source, now)
    return window


def packs_inline(window: OutgoingWindow, codec: Codec | None) -> bool:
    """Return whether packing *window* is not worth a thread.

    Blocks and full records always with zlib, whose levels here are all fast (2 ms for a full
    window): handing windows over and back, to a processor that does not have them in its cache,
    costs a tenth of all CPU time that the agent takes. Packs are worth it: two threads compress two
    windows at a time.
    """
    if window.pending:
        return window.size <= _INLINE_BYTES
    return codec != "zstd" or window.size <= _SMALL_BYTES


def pack_window(
    frames: Sequence[FramePart],
    records: int,
    codec: Codec | None,
    level: int,
    version: bytes = VERSION_2,
) -> list[Part]:
    """Return a window as it travels: W and C frames, or W and bare *frames* without *codec*.

    Compresses the packs among the frames, which then travel bare: an envelope would save nothing,
    unless they are very small. Releases the interpreter while it compresses. Text so monotonous
    that readers would take its zstd frame for a bomb is compressed by zlib, which can't compress
    that much.
    """
    head = WindowFrame(records).encode(version)
    parts = encode_parts(frames)
    if codec is None or (
        any(isinstance(frame, PendingFrame) for frame in frames)
        and sum(map(len, parts)) > records * _SMALL_RUN
    ):
        return [head, *parts]

    payload = pack(parts, codec, level if codec == "zstd" else min(level, _ZLIB_LEVEL))
    # such text takes no time to compress once more
    if codec == "zstd" and len(payload) * _SAFE_RATIO < sum(map(len, parts)):
        payload = pack(parts, "zlib", 1)
    return [head, EnvelopeFrame(payload).encode(version)]
