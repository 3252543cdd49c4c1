"""Windows: what is sent, and acknowledged, together. Gathering them fairly, and packing them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.delivery.reader import SourceReader
from agent.records.batch import Run
from agent.sources.queue import SendQueue
from agent.sources.source import Source
from logdrive.model.limits import RUN_RECORDS
from logdrive.model.units import KIB
from logdrive.wire.lumberjack.envelope import Codec, pack
from logdrive.wire.lumberjack.frames import VERSION_2, EnvelopeFrame, WindowFrame
from logdrive.wire.lumberjack.limits import LOGDRIVE_1

_SMALL_BYTES: Final = 4 * KIB
"""So much zstd packs sooner than it is handed over."""
_SAFE_RATIO: Final = LOGDRIVE_1.ratio - 100
_ZLIB_LEVEL: Final = 3
_FULL = 15 / 16
"""Four blocks are a little less than four times their text: what counts as a full window."""


@dataclass(slots=True)
class OutgoingWindow:
    """The runs of one window, each with its source and the epoch that it was sent in."""

    runs: list[tuple[Source, int, Run]] = field(default_factory=list)
    records: int = 0
    size: int = 0

    def add_run(self, source: Source, run: Run, *, told: bool) -> None:
        """Enter a run; its frames are the dialect's to make.

        One that is not *told* is only acknowledged, in its turn.
        """
        self.runs.append((source, source.epoch, run))
        if told:
            self.records += len(run.records)
            self.size += run.size


@dataclass(frozen=True, slots=True)
class WindowRoom:
    """How large a window may get."""

    size: int
    records: int = LOGDRIVE_1.window - RUN_RECORDS
    runs: int = 512
    """So that thousands of sources with a line each don't hold up the loop."""
    marks: bool = True
    """Gaps and ends can be told."""

    def has_room_for(self, window: OutgoingWindow) -> bool:
        """Tell whether another run may be added."""
        return (
            window.size < self.size * _FULL
            and window.records < self.records
            and len(window.runs) < self.runs
        )


def gather_window(
    demand: SendQueue, producer: SourceReader, room: WindowRoom, now: float
) -> OutgoingWindow:
    """Return a window of what is read at once of the sources that have waited longest, then of the
    same again while there is room.
    """
    window = OutgoingWindow()
    while room.has_room_for(window) and (source := demand.next_to_send()) is not None:
        first = run = producer.read_next_run(source)
        while run is not None:
            window.add_run(source, run, told=room.marks or run.mark is None)
            # what was read goes first: else each source would keep some
            run = source.next_unsent_run() if room.has_room_for(window) else None
        if first is not None and source.has_more:
            demand.enqueue(source, now)
    return window


def packs_inline(window: OutgoingWindow, codec: Codec | None) -> bool:
    """Tell whether packing is not worth a thread.

    Never with zlib, whose levels here are all fast (2 ms for a full window): handing windows over
    and back, to a processor that does not have them in its cache, costs a tenth of all CPU that the
    agent takes.
    """
    return codec != "zstd" or window.size <= _SMALL_BYTES


def pack_window(
    frames: Sequence[bytes],
    records: int,
    codec: Codec | None,
    level: int,
    version: bytes = VERSION_2,
) -> list[bytes]:
    """Return a window as it travels: W and C in one write, or bare frames without *codec*.

    Releases the interpreter meanwhile.

    zstd packs monotonous text tighter than readers believe; then zlib, which can't, is taken.
    """
    head = WindowFrame(records).encode(version)
    if codec is None:
        return [head + b"".join(frames)]
    text = b"".join(frames)
    payload = pack(text, codec, level if codec == "zstd" else min(level, _ZLIB_LEVEL))
    if codec == "zstd" and len(payload) * _SAFE_RATIO < len(text):
        payload = pack(text, "zlib", 1)
    return [head, EnvelopeFrame(payload).encode(version)]
