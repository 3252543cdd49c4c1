"""Watermarks: what follows from the times that writers note, written to each stream's mark, where
Java's readers look for it.

A watermark says that the writers had come to one time at least, and none further than another, when
no more than up to one place of the stream was written. There is a new one when every writer has
noted a later time than the last one begins with. Who has not is waited for as long as the stream's
maker said, not at all unless told, and then forgotten, as is who left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from logdrive.errors import LogdriveError
from logdrive.model.units import MIB
from logdrive.store.boundaries import boundary_from
from logdrive.store.streams import key_ranges as layout
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
MARK_BYTES: Final = 16 * MIB
"""What is kept of a mark: where a stream has two segments, the watermarks of two weeks or more."""
_log = structlog.get_logger("logdrive.store.streams")

_Silent = dict[str, float]
"""Since when writers are waited for."""


@dataclass(slots=True)
class _Judged:
    """What the writers of one stream are: *ahead* of its latest watermark, waited for (*silent*),
    or *over*.
    """

    ahead: list[WriterMark] = field(default_factory=list)
    silent: _Silent = field(default_factory=dict)
    over: list[str] = field(default_factory=list)


class Watermarks:
    """The watermarks of a store's streams. After a start every writer is waited for anew."""

    def __init__(self, catalogue: Catalog) -> None:
        self._catalogue = catalogue
        self._silent: dict[tuple[str, str], _Silent] = {}

    async def run(self) -> None:
        """Look at the streams whose writers note times again and again, until cancelled."""
        while True:
            await self._catalogue.clock.sleep(EVERY_SECONDS)
            await self.apply()

    async def apply(self) -> None:
        """Look at each once. What can't be written now is told, and tried again."""
        timed = self._catalogue.streams_with_times()
        self._silent = {found: self._silent[found] for found in timed if found in self._silent}
        for scope, stream in timed:
            try:
                await self.advance(scope, stream)
            except LogdriveError as error:
                _log.warning(
                    "a stream has no new watermark", stream=f"{scope}/{stream}", reason=str(error)
                )

    async def advance(self, scope: str, stream: str) -> None:
        """Write a watermark of *stream* if there is a new one, and forget the writers that are
        over.
        """
        async with self._catalogue.turn() as state:
            place = state.stream_state(scope, stream)
            if place is None:
                return
            judged = judge(
                place, self._silent.get((scope, stream), {}), self._catalogue.clock.monotonic()
            )
            self._silent[scope, stream] = judged.silent
            puts: list[Put] = [WriterPut(scope, stream, writer, None) for writer in judged.over]
            if judged.ahead and not judged.silent:
                if state.stream_state(scope, mark_stream(stream)) is None:
                    puts.append(
                        self._catalogue.creation_put(scope, mark_stream(stream), StreamConfig())
                    )
                puts.append(WatermarkPut(scope, stream, following(place, judged.ahead)))
            await self._catalogue.commit_puts(puts)
            await self._shorten(
                scope, mark_stream(stream), state.stream_state(scope, mark_stream(stream))
            )

    async def _shorten(self, scope: str, name: str, mark: StreamState | None) -> None:
        """Cut off the oldest watermarks of a mark that is too long."""
        store = self._catalogue.store
        for segment in layout.current_segments(mark.stream) if mark is not None else ():
            info = store.info(found := segment_name(scope, name, segment.id))
            if info is not None and info.length - info.start > MARK_BYTES:
                await store.truncate(found, boundary_from(store, found, info.length - MARK_BYTES))


def judge(place: StreamState, silent: Mapping[str, float], now: float) -> _Judged:
    """Return what the writers of *place* are at *now*, in seconds; *silent* are those that were
    waited for already.
    """
    judged = _Judged()
    patience = place.stream.config.timestamp_aggregation_ms / 1000
    for writer, noted in place.writers.items():
        since = silent.get(writer, now)
        if place.watermark is None or noted.time > place.watermark.low:
            judged.ahead.append(noted)
        elif noted.leaving or now - since >= patience:
            judged.over.append(writer)
        else:
            judged.silent[writer] = since
    return judged


def following(place: StreamState, noted: list[WriterMark]) -> Watermark:
    """Return the watermark that follows from what all writers have *noted*; its place does not lie
    before that of the last one.
    """
    last = place.watermark
    positions = {passed.segment: passed.offset for passed in last.cut} if last is not None else {}
    for found in noted:
        for segment, offset in found.position.items():
            positions[segment] = max(offset, positions.get(segment, 0))
    cut = [
        Passed(segment.id, segment.low, segment.high, offset)
        for segment, offset in layout.cut_reached(place.stream, positions)
    ]
    times = [found.time for found in noted]
    return Watermark(last.number + 1 if last is not None else 1, min(times), max(times), tuple(cut))
