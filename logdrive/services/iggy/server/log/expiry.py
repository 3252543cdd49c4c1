"""Expiry of messages: by age, and by the size of their topic; in the background.

Late, never early: whole appends go, never one that may be younger, and never so many that less is
left than a topic may have. Only topics for which an Iggy client has set a limit are touched: what
another face made is kept as that face says.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import structlog

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.services.iggy.server.log.partition_logs import PartitionLogs
from logdrive.services.numbering.times import appended_from
from logdrive.store.engine import Store
from logdrive.wire.iggy.errors import IggyError, Reason

EVERY_SECONDS: Final = 60.0
"""Seconds between two passes."""
_log = structlog.get_logger("logdrive.store.iggy")


class TopicLimits(NamedTuple):
    """What a topic keeps: its *segments*, and limits that a client has set; None: no limit."""

    topic: str
    segments: Sequence[str]
    expiry_us: int | None
    max_bytes: int | None


class MessageExpiry:
    """Applies what *topics* returns, at each pass, to the partitions of the store."""

    def __init__(
        self,
        store: Store,
        logs: PartitionLogs,
        topics: Callable[[], Iterable[TopicLimits]],
        *,
        clock: Clock,
    ) -> None:
        self._store = store
        self._logs = logs
        self._topics = topics
        self._clock = clock

    async def run(self) -> None:
        """Make a pass each minute until cancelled."""
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            await self.apply()

    async def apply(self) -> None:
        """Make one pass; what fails is logged, and tried again with the next one."""
        for topic in list(self._topics()):
            await asyncio.sleep(0)
            if topic.expiry_us is None and topic.max_bytes is None:
                continue
            try:
                await self._apply_to(topic)
            except LogdriveError as error:
                _log.warning(
                    "messages of a topic can't expire", topic=topic.topic, reason=str(error)
                )

    async def _apply_to(self, topic: TopicLimits) -> None:
        before_ms = 0
        if topic.expiry_us is not None:
            # a message's time is in the last µs of its append's ms
            before_ms = (self._clock.now_ms() * 1000 - topic.expiry_us) // 1000
        if topic.max_bytes is not None:
            before_ms = max(before_ms, await self._fits_from(topic.segments, topic.max_bytes))
        freed = 0
        for segment in topic.segments:
            if not self._has_older(segment, before_ms):
                continue
            try:
                freed += await (await self._logs.open(segment)).expire(before_ms)
            except IggyError as error:
                if error.reason is not Reason.PARTITION_NOT_FOUND:  # it was deleted meanwhile
                    raise
        if freed:
            _log.info("old messages expired", topic=topic.topic, bytes=freed)

    async def _fits_from(self, segments: Sequence[str], most: int) -> int:
        """Return the latest time (ms since 1970) from which on at least *most* bytes are there.

        0 where they have no more than *most* in all. Found by bisection over the times of appends.
        """
        if self._bytes_from(segments, 0) <= most:
            return 0
        low, high = 0, self._clock.now_ms() + 1
        while high - low > 1:
            await asyncio.sleep(0)
            middle = (low + high) // 2
            if self._bytes_from(segments, middle) >= most:
                low = middle
            else:
                high = middle
        return low

    def _bytes_from(self, segments: Sequence[str], time_ms: int) -> int:
        return sum(self._bytes_of(segment, time_ms) for segment in segments)

    def _bytes_of(self, segment: str, time_ms: int) -> int:
        """Return the bytes of *segment* that were appended at *time_ms* or later."""
        info = self._store.info(segment)
        if info is None:
            return 0
        begin = appended_from(self._store, segment, info.start, info.length, time_ms)
        return info.length - begin

    def _has_older(self, segment: str, time_ms: int) -> bool:
        """Return whether the oldest append of *segment* is older than *time_ms*."""
        info = self._store.info(segment)
        if info is None or info.start >= info.length:
            return False
        oldest = self._store.append_at(segment, info.start).time_ms
        return oldest is not None and oldest < time_ms
