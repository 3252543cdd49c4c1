"""Watermarks: how far a stream's time has come, computed from the times that writers note.

They are written to each stream's mark stream, where Java's readers look for them. A watermark has a
stream cut and two times: when the stream was written no further than the cut, all writers had
reached the lower time, and none was past the upper. There is a new watermark when every writer has
noted a later time than the lower one of the last. A writer that has not is waited for as long as
the stream's configuration says, by default not at all, and then forgotten; so is one that was
removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from logdrive.errors import LogdriveError
from logdrive.model.units import MIB
from logdrive.store.boundaries import boundary_from
from logdrive.store.streams import key_ranges
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.names import mark_stream
from logdrive.store.streams.state import (
    Passed,
    Put,
    StreamConfig,
    StreamState,
    Watermark,
    WatermarkPut,
    WriterMark,
    WriterPut,
)
from logdrive.wire.pravega.names import segment_name

EVERY_SECONDS: Final = 10.0
"""Seconds between two watermarks of a stream, at least."""
MARK_BYTES: Final = 16 * MIB
"""Bytes kept of a mark stream: two weeks of watermarks, or more, of a stream of two segments."""
_log = structlog.get_logger("logdrive.store.streams")

_Silent = dict[str, float]
"""Since when each writer is waited for, in seconds on the monotonic clock."""


@dataclass(slots=True)
class _Judged:
    """The writers of one stream, by what they mean for its next watermark."""

    # those that have noted a later time than the last watermark's lower one
    ahead: list[WriterMark] = field(default_factory=list)
    # those that are waited for
    silent: _Silent = field(default_factory=dict)
    # those to forget: removed, or waited for long enough
    over: list[str] = field(default_factory=list)


class Watermarks:
    """Writes the watermarks of a store's streams. After a start it waits for every writer anew."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # by scope and stream
        self._silent: dict[tuple[str, str], _Silent] = {}

    async def run(self) -> None:
        """Write watermarks when there are new ones, until cancelled."""
        while True:
            await self._catalog.clock.sleep(EVERY_SECONDS)
            await self.advance_all()

    async def advance_all(self) -> None:
        """Write each stream's new watermark, if any; a failure is logged, and tried again."""
        timed = self._catalog.streams_with_times()
        self._silent = {key: self._silent[key] for key in timed if key in self._silent}
        for scope, stream in timed:
            try:
                await self.advance_stream(scope, stream)
            except LogdriveError as error:
                _log.warning(
                    "a watermark can't be written now, trying again",
                    stream=f"{scope}/{stream}",
                    reason=str(error),
                )

    async def advance_stream(self, scope: str, stream: str) -> None:
        """Write a new watermark of *stream*, if there is one, and forget writers that are over."""
        async with self._catalog.turn() as state:
            stream_state = state.stream_state(scope, stream)
            if stream_state is None:
                return
            judged = judge_writers(
                stream_state, self._silent.get((scope, stream), {}), self._catalog.clock.monotonic()
            )
            self._silent[scope, stream] = judged.silent

            puts: list[Put] = [WriterPut(scope, stream, writer, None) for writer in judged.over]
            if judged.ahead and not judged.silent:
                # its first watermark creates the mark stream
                if state.stream_state(scope, mark_stream(stream)) is None:
                    puts.append(
                        self._catalog.creation_put(scope, mark_stream(stream), StreamConfig())
                    )
                puts.append(WatermarkPut(scope, stream, next_watermark(stream_state, judged.ahead)))
            await self._catalog.commit_puts(puts)
            await self._shorten(
                scope, mark_stream(stream), state.stream_state(scope, mark_stream(stream))
            )

    async def _shorten(self, scope: str, name: str, mark: StreamState | None) -> None:
        """Truncate a mark stream that is longer than `MARK_BYTES`."""
        store = self._catalog.store
        for segment in key_ranges.current_segments(mark.stream) if mark is not None else ():
            info = store.info(full_name := segment_name(scope, name, segment.id))
            if info is not None and info.length - info.start > MARK_BYTES:
                await store.truncate(
                    full_name, boundary_from(store, full_name, info.length - MARK_BYTES)
                )


def judge_writers(stream_state: StreamState, silent: Mapping[str, float], now: float) -> _Judged:
    """Sort the writers of a stream at *now* (seconds); *silent* are those already waited for."""
    judged = _Judged()
    patience = stream_state.stream.config.timestamp_aggregation_ms / 1000
    for writer, noted in stream_state.writers.items():
        since = silent.get(writer, now)
        if stream_state.watermark is None or noted.time > stream_state.watermark.low:
            judged.ahead.append(noted)
        elif noted.leaving or now - since >= patience:
            judged.over.append(writer)
        else:
            judged.silent[writer] = since
    return judged


def next_watermark(stream_state: StreamState, noted: list[WriterMark]) -> Watermark:
    """Return the watermark for what all writers have *noted*.

    Its cut is the furthest of their positions, and never before the cut of the last watermark.
    """
    last = stream_state.watermark
    positions = {passed.segment: passed.offset for passed in last.cut} if last is not None else {}
    for mark in noted:
        for segment, offset in mark.position.items():
            positions[segment] = max(offset, positions.get(segment, 0))
    cut = [
        Passed(segment.id, segment.low, segment.high, offset)
        for segment, offset in key_ranges.cut_reached(stream_state.stream, positions)
    ]
    times = [mark.time for mark in noted]
    return Watermark(last.number + 1 if last is not None else 1, min(times), max(times), tuple(cut))
