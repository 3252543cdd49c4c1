"""Retention: truncates streams that have more, or older, batches than their policy keeps.

Segments stay, with their writers' numbers (rule S4). Only their starts move, from batch to batch
(rule S6), and never past what a reader named in the policy still needs.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from heapq import heapify, heappop, heappush
from typing import Final

import structlog

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.model.numbers import ABSENT
from logdrive.store.boundaries import boundary_after
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError, StoreDamagedError
from logdrive.store.readers import reader_key
from logdrive.wire.pravega.names import KV_TABLE_SUFFIX, SegmentName

EVERY_SECONDS: Final = 10.0
"""Seconds between two passes."""
_AT_ONCE: Final = 32
"""Batches examined before the event loop runs other tasks."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept of each stream whose name matches *stream*, a pattern with * and ?.

    At most *max_bytes*, and nothing older than *max_age_ms*; None means no limit. Data that one of
    *readers* has not read is never cut off, nor data in a segment of *needed* from the offset given
    there on.
    """

    stream: str
    max_bytes: int | None = None
    max_age_ms: int | None = None
    readers: tuple[str, ...] = ()
    needed: Mapping[str, int] = field(default_factory=dict)


PolicyOf = Callable[[str], Policy | None]
"""Returns the policy of a stream, given as scope/stream; None if it keeps everything."""


def first_matching(policies: Sequence[Policy]) -> PolicyOf:
    """Return a function that finds the first of *policies* whose pattern matches a stream."""
    return lambda stream: next(
        (policy for policy in policies if fnmatchcase(stream, policy.stream)), None
    )


def retained_stream(segment: str) -> str | None:
    """Return the stream, as scope/stream, to which retention of *segment* belongs.

    None if *segment* is never truncated by retention: it belongs to a key-value table or a
    transaction, or is internal (scope or stream begin with "_").
    """
    name = SegmentName.match(segment)
    if name is None or name.scope.startswith("_") or name.stream.startswith("_"):
        return None
    return None if name.stream.endswith(KV_TABLE_SUFFIX) else f"{name.scope}/{name.stream}"


@dataclass(slots=True)
class _Cut:
    """One segment: it begins at *start*, and will begin at *at*, which is at most *limit*."""

    segment: str
    start: int
    at: int
    limit: int


class Retention:
    """Applies the policies that *policy_of* returns to the streams of a running store."""

    def __init__(self, store: Store, policy_of: PolicyOf, clock: Clock) -> None:
        self._store = store
        self._policy_of = policy_of
        self._clock = clock
        # by segment: an offset, and when the data there was stored (ms since 1970)
        self._times: dict[str, tuple[int, int]] = {}
        self._log = structlog.get_logger("logdrive.store").bind(store=store.path)

    async def run(self) -> None:
        """Apply the policies every 10 seconds until cancelled; what fails is tried again."""
        while True:
            try:
                await self.apply_policies()
            except LogdriveError as error:
                self._log.warning("retention failed", reason=str(error))
            await asyncio.sleep(EVERY_SECONDS)

    async def apply_policies(self) -> None:
        """Truncate every stream once, if its policy says so. Raises what the store raises."""
        streams: dict[str, list[str]] = {}
        segments_now = self._store.segments()
        self._times = {
            segment: self._times[segment] for segment in segments_now if segment in self._times
        }
        for segment in segments_now:
            if (stream := retained_stream(segment)) is not None:
                streams.setdefault(stream, []).append(segment)
        for stream, segments in streams.items():
            if (policy := self._policy_of(stream)) is not None:
                try:
                    await self._apply_to(stream, segments, policy)
                # these errors concern this stream only
                except (StoreDamagedError, NoSuchSegmentError) as error:
                    self._log.warning("retention failed", stream=stream, reason=str(error))

    async def _apply_to(self, stream: str, segments: Sequence[str], policy: Policy) -> None:
        cuts = await self._cuts(segments, policy)
        for cut in cuts:
            if cut.at > cut.start:
                await self._store.truncate(cut.segment, cut.at)
        if freed := sum(cut.at - cut.start for cut in cuts):
            self._log.info("old batches cut off", stream=stream, bytes=freed)

    async def _cuts(self, segments: Sequence[str], policy: Policy) -> list[_Cut]:
        """Return where each of *segments* should begin: the oldest batches are cut off first."""
        cuts: list[_Cut] = []
        kept = 0
        for segment in segments:
            info = self._store.info(segment)
            if info is not None:
                cuts.append(
                    _Cut(
                        segment,
                        info.start,
                        info.start,
                        self._limit(segment, info.start, info.length, policy),
                    )
                )
                kept += info.length - info.start

        # by size alone, and there is room: no batch need be looked at
        before = self._clock.now_ms() - policy.max_age_ms if policy.max_age_ms is not None else None
        if before is None and not _exceeds(kept, policy.max_bytes):
            return cuts

        # the oldest batch of all segments goes first
        oldest = [(self._time(cut), row) for row, cut in enumerate(cuts) if cut.at < cut.limit]
        heapify(oldest)
        looked = 0
        while oldest and (
            _exceeds(kept, policy.max_bytes) or (before is not None and oldest[0][0] < before)
        ):
            cached_ms, row = heappop(oldest)
            cut = cuts[row]
            # the cached time may be of a deleted segment whose name a new one has
            if (
                self._times.pop(cut.segment)[0] == cut.start
                and (time_ms := self._time(cut)) != cached_ms
            ):
                heappush(oldest, (time_ms, row))
                continue

            # a batch that a reader needs the end of stays, and the segment leaves the heap
            end = boundary_after(self._store, cut.segment, cut.at)
            if end <= cut.limit:
                kept -= end - cut.at
                cut.at = end
                if end < cut.limit:
                    heappush(oldest, (self._time(cut), row))
            looked += 1
            if looked % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return cuts

    def _time(self, cut: _Cut) -> int:
        """Return when the data at the cut was stored, in ms since 1970.

        It is cached: most segments begin where they began at the last pass.
        """
        at, time_ms = self._times.get(cut.segment, (-1, 0))
        if at != cut.at:
            time_ms = self._stored_ms(cut.segment, cut.at)
            self._times[cut.segment] = cut.at, time_ms
        return time_ms

    def _stored_ms(self, segment: str, offset: int) -> int:
        """Return when the data at *offset* was stored, in ms since 1970.

        If the log is damaged there, the time of the next readable append.
        """
        info = self._store.info(segment)
        if info is None:
            raise NoSuchSegmentError(segment)
        while offset < info.length:
            append = self._store.append_at(segment, offset)
            if append.time_ms is not None:
                return append.time_ms
            offset = append.offset + append.length
        return info.modified_ms

    def _limit(self, segment: str, start: int, length: int, policy: Policy) -> int:
        """Return the largest offset at which *segment* may begin.

        A named reader that has no position yet needs all of it.
        """
        positions = [self._store.attribute(segment, reader_key(name)) for name in policy.readers]
        needed = max(start, policy.needed.get(segment, length))
        return min(
            [
                length,
                needed,
                *(start if position == ABSENT else max(start, position) for position in positions),
            ]
        )


def _exceeds(kept: int, limit: int | None) -> bool:
    return limit is not None and kept > limit
