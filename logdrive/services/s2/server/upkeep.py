"""Upkeep of S2's streams, in the background: retention by age, and deletion of empty streams.

Both are late rather than early. Only streams with a configuration of their own are touched: what
another face made is kept as that face says.
"""

import asyncio
from typing import Final

import structlog

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.services.numbering.times import appended_from
from logdrive.services.s2.server.registry import Registry
from logdrive.services.s2.server.streams import FoundStream, S2Streams
from logdrive.store.boundaries import boundary_from
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError

EVERY_SECONDS: Final = 60.0
"""Seconds between two passes."""
_MARGIN_MS: Final = 600_000
"""How much later than its configuration says an empty stream is deleted at least."""
_AT_ONCE: Final = 32
"""Streams looked at before the event loop runs other tasks."""
_log = structlog.get_logger("logdrive.store.s2")


class Upkeep:
    """Applies the configurations of S2's streams to their segments."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        streams: S2Streams,
        *,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._streams = streams
        self._clock = clock

    async def run(self) -> None:
        """Make a pass each minute until cancelled."""
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            await self.apply()

    async def apply(self) -> None:
        """Make one pass; what fails is logged, and tried again with the next one."""
        state, looked = self._registry.state, 0
        for basin, streams in list(state.streams.items()):
            for name, stream in list(streams.items()):
                looked += 1
                if looked % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                found = self._streams.known(basin, name)
                if found is None:
                    continue  # it is being deleted, or another face has replaced it
                try:
                    await self._apply_to(found, stream.created_ms)
                except NoSuchSegmentError:
                    continue
                except LogdriveError as error:
                    _log.warning(
                        "the upkeep of a stream failed", stream=f"{basin}/{name}", reason=str(error)
                    )

    async def _apply_to(self, stream: FoundStream, created_ms: int) -> None:
        age = stream.config.retention.age
        now = self._clock.now_ms()
        if age is not None:
            await self._cut(stream.segment, now - age * 1000)
        wait_ms = stream.config.delete_on_empty_seconds * 1000 + _MARGIN_MS
        if wait_ms == _MARGIN_MS or now - created_ms < wait_ms:
            return
        info = self._store.info(stream.segment)
        # a trim is carried out before long, and changes the segment, too
        if info is not None and info.start == info.length and now - info.modified_ms >= wait_ms:
            _log.info("an empty stream is deleted", stream=f"{stream.basin}/{stream.name}")
            await self._streams.delete(stream.basin, stream.name)

    async def _cut(self, segment: str, before_ms: int) -> None:
        """Cut off the appends of *segment* that were made before *before_ms* (since 1970)."""
        info = self._store.info(segment)
        if info is None or info.start >= info.length:
            return
        if not self._is_older(segment, info.start, before_ms):
            return
        old = appended_from(self._store, segment, info.start, info.length, before_ms)
        cut = self._whole_events(segment, info.start, old)
        if cut > info.start:
            await self._store.truncate(segment, cut)
            _log.info("old records cut off", segment=segment, bytes=cut - info.start)

    def _whole_events(self, segment: str, start: int, cut: int) -> int:
        """Return *cut*, or the end of an append before it where an event goes on over *cut*."""
        while cut > start and boundary_from(self._store, segment, cut) != cut:
            cut = self._store.append_at(segment, cut - 1).offset
        return max(cut, start)

    def _is_older(self, segment: str, offset: int, before_ms: int) -> bool:
        # an append whose time can't be read, as the log is damaged there, is kept
        time_ms = self._store.append_at(segment, offset).time_ms
        return time_ms is not None and time_ms < before_ms
