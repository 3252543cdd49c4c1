"""Scaling by rate: splits busy segments, and joins idle neighbors.

Only streams whose configuration has a rate are examined, once a minute. A segment is split if it
took more than the rate in each of the last two minutes. Two neighbors are joined if together they
took less than half of it in each of the last ten, so that what was joined is not split again at
once. Rates are not stored: after a start they are measured again.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Final

import structlog

from logdrive.errors import LogdriveError
from logdrive.model.units import KIB
from logdrive.store.index.index import SegmentInfo
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.key_ranges import KeyRange
from logdrive.store.streams.state import Segment, Stream, StreamConfig
from logdrive.store.streams.streams import Streams
from logdrive.wire.pravega.names import segment_name

EVERY_SECONDS: Final = 60.0
"""Seconds between two measurements."""
_HOT, _COLD = 2, 10  # measurements
_MOST_PARTS: Final = 16
_NARROWEST: Final = 1e-9
_BY_KIB, _BY_EVENTS = 1, 2  # Pravega's types of scaling, per second
_log = structlog.get_logger("logdrive.store.streams")


@dataclass(slots=True)
class _Measured:
    """What a segment had taken at the last measurement, and its rates, the latest last."""

    total: float
    rates: "deque[float]"


class Scaling:
    """Scales the streams of a store whose configuration asks for it."""

    def __init__(self, catalog: Catalog, streams: Streams) -> None:
        self._catalog = catalog
        self._streams = streams
        # by segment
        self._measured: dict[str, _Measured] = {}
        # when they were measured last, in seconds of the clock
        self._at = catalog.clock.monotonic()

    async def run(self) -> None:
        """Measure and scale every minute, until cancelled."""
        while True:
            await self._catalog.clock.sleep(EVERY_SECONDS)
            await self.scale_streams()

    async def scale_streams(self) -> None:
        """Measure, and scale each stream at most once.

        What is refused is logged, and tried again.
        """
        now = self._catalog.clock.monotonic()
        seconds, self._at = now - self._at, now
        before, self._measured = self._measured, {}
        for scope, name, stream in self._catalog.active_streams():
            if (
                stream.config.scale_type not in (_BY_KIB, _BY_EVENTS)
                or stream.config.target_rate <= 0
            ):
                continue
            segments = sorted(layout.current_segments(stream), key=lambda segment: segment.low)
            rates = {
                segment.id: self._rates(
                    segment_name(scope, name, segment.id), stream, before, seconds
                )
                for segment in segments
            }
            sealed, ranges = plan_scaling(segments, rates, stream.config)
            if sealed:
                await self._scale(scope, name, sealed, ranges)

    def _rates(
        self, segment: str, stream: Stream, before: Mapping[str, _Measured], seconds: float
    ) -> Sequence[float]:
        info = self._catalog.store.info(segment)
        if info is None:
            return ()

        total, known = _total_taken(info, stream.config), before.get(segment)
        measured = self._measured[segment] = _Measured(
            total, known.rates if known is not None else deque(maxlen=_COLD)
        )
        if known is not None and seconds > 0:
            measured.rates.append((total - known.total) / seconds)
        return measured.rates

    async def _scale(
        self, scope: str, stream: str, sealed: Sequence[int], ranges: Sequence[KeyRange]
    ) -> None:
        try:
            epoch, current = await self._streams.scale(scope, stream, sealed, ranges)
        except LogdriveError as error:
            _log.warning("scaling failed", stream=f"{scope}/{stream}", reason=str(error))
        else:
            _log.info(
                "a stream was scaled",
                stream=f"{scope}/{stream}",
                epoch=epoch,
                segments=len(current),
            )


def plan_scaling(
    segments: Sequence[Segment], rates: Mapping[int, Sequence[float]], config: StreamConfig
) -> tuple[list[int], list[KeyRange]]:
    """Return the segments to be replaced, and the key ranges of those that replace them.

    *segments* are in the order of their keys; *rates* has the latest rate last.
    """
    # split what was busy in each of the last minutes; never a range too narrow to be split
    sealed: list[int] = []
    ranges: list[KeyRange] = []
    for segment in segments:
        latest = list(rates[segment.id])[-_HOT:]
        if (
            len(latest) == _HOT
            and min(latest) > config.target_rate
            and segment.high - segment.low > _NARROWEST
        ):
            sealed.append(segment.id)
            ranges += _split_range(
                segment,
                min(
                    max(2, config.scale_factor), _MOST_PARTS, ceil(min(latest) / config.target_rate)
                ),
            )
    if sealed or len(segments) <= config.min_segments:
        return sealed, ranges

    # nothing to split: join the first pair that is idle
    for one, other in pairwise(segments):
        both = [a + b for a, b in zip(rates[one.id], rates[other.id], strict=False)]
        if (
            len(both) == _COLD
            and len(rates[one.id]) == len(rates[other.id])
            and max(both) < config.target_rate / 2
        ):
            return [one.id, other.id], [(one.low, other.high)]
    return [], []


def _split_range(segment: Segment, count: int) -> list[KeyRange]:
    width = (segment.high - segment.low) / count
    bounds = [segment.low, *(segment.low + width * n for n in range(1, count)), segment.high]
    return list(pairwise(bounds))


def _total_taken(info: SegmentInfo, config: StreamConfig) -> float:
    """Return what a segment has taken so far, in the unit of its stream's configuration."""
    return info.length / KIB if config.scale_type == _BY_KIB else info.events
