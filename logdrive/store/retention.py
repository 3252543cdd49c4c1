"""Retention: cuts the oldest batches off streams that hold more, or older ones, than their policy
keeps.

Segments stay, with the writers' numbers in them (rule S4): only their starts move, from batch to
batch (rule S6), and never past what a reader named in the policy still needs.
"""

import asyncio
import re
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

EVERY_SECONDS: Final = 10.0
_AT_ONCE: Final = 32
"""Batches looked at before the loop is given to others."""
_STREAM: Final = re.compile(r"([^/_][^/]*/[^/_][^/]*)/\d+\.#epoch\.\d+")


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept of each stream that *stream*, a pattern with * and ?, names: at most so much,
    and nothing older; None: no limit.

    Never cut off is what one of *readers* has not read, nor what lies in a segment of *needed* from
    the offset named there.
    """

    stream: str
    max_bytes: int | None = None
    max_age_ms: int | None = None
    readers: tuple[str, ...] = ()
    needed: Mapping[str, int] = field(default_factory=dict)


PolicyOf = Callable[[str], Policy | None]


def first_of(policies: Sequence[Policy]) -> PolicyOf:
    """Return a function that finds the first of *policies* that names a stream."""
    return lambda stream: next(
        (policy for policy in policies if fnmatchcase(stream, policy.stream)), None
    )


def stream_of(segment: str) -> str | None:
    """Return the stream that *segment* belongs to; None for tables, transactions and whatever else
    is not ours to cut.
    """
    found = _STREAM.fullmatch(segment)
    return found[1] if found is not None and not found[1].endswith("_kvtable") else None


@dataclass(slots=True)
class _Cut:
    """One segment of a stream: it begins at *start* and is to begin at *at*, no further than
    *limit*.
    """

    segment: str
    start: int
    at: int
    limit: int


class Retention:
    """Applies *policy_of* each stream to a running store, again and again."""

    def __init__(self, store: Store, policy_of: PolicyOf, clock: Clock) -> None:
        self._store, self._policy_of, self._clock = store, policy_of, clock
        self._times: dict[str, tuple[int, int]] = {}
        self._log = structlog.get_logger("logdrive.store").bind(store=store.path)

    async def run(self) -> None:
        """Apply them until cancelled. What can't be cut now is tried again."""
        while True:
            try:
                await self.apply()
            except LogdriveError as error:
                self._log.warning("retention is not applied", reason=str(error))
            await asyncio.sleep(EVERY_SECONDS)

    async def apply(self) -> None:
        """Cut every stream once. Raises what the store raises."""
        streams: dict[str, list[str]] = {}
        there = self._store.segments()
        self._times = {segment: self._times[segment] for segment in there if segment in self._times}
        for segment in there:
            if (stream := stream_of(segment)) is not None:
                streams.setdefault(stream, []).append(segment)
        for stream, segments in streams.items():
            if (policy := self._policy_of(stream)) is not None:
                try:
                    await self._apply_to(stream, segments, policy)
                # which concern this stream only
                except (StoreDamagedError, NoSuchSegmentError) as error:
                    self._log.warning("retention is not applied", stream=stream, reason=str(error))

    async def _apply_to(self, stream: str, segments: Sequence[str], policy: Policy) -> None:
        cuts = await self._cuts(segments, policy)
        for cut in cuts:
            if cut.at > cut.start:
                await self._store.truncate(cut.segment, cut.at)
        if freed := sum(cut.at - cut.start for cut in cuts):
            self._log.info("old batches cut off", stream=stream, bytes=freed)

    async def _cuts(self, segments: Sequence[str], policy: Policy) -> list[_Cut]:
        """Return where to cut: the oldest batches first, over all *segments*."""
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
        before = self._clock.now_ms() - policy.max_age_ms if policy.max_age_ms is not None else None
        if before is None and not _exceeds(kept, policy.max_bytes):
            return cuts
        oldest = [(self._time(cut), row) for row, cut in enumerate(cuts) if cut.at < cut.limit]
        heapify(oldest)
        looked = 0
        while oldest and (
            _exceeds(kept, policy.max_bytes) or (before is not None and oldest[0][0] < before)
        ):
            told, row = heappop(oldest)
            cut = cuts[row]
            if (
                self._times.pop(cut.segment)[0] == cut.start
                and (time_ms := self._time(cut)) != told
            ):
                heappush(oldest, (time_ms, row))  # another segment has the name by now
                continue
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
        """Return when what stands at the cut was stored; read from the log once, as most segments
        begin where they began before.
        """
        at, time_ms = self._times.get(cut.segment, (-1, 0))
        if at != cut.at:
            time_ms = self._stored_ms(cut.segment, cut.at)
            self._times[cut.segment] = cut.at, time_ms
        return time_ms

    def _stored_ms(self, segment: str, offset: int) -> int:
        """Return when what stands at *offset* was stored; where that is damaged, when the next came
        of which it can be told.
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
        """Return the furthest offset that *segment* may begin at: a reader never heard of needs all
        of it.
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
