"""Deletion of streams and basins, in the background: what a request asked for, and what a crash
left undone.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.services.s2.server.registry import Registry
from logdrive.services.s2.server.state import BasinPut, RegisteredStream, S2StreamPut
from logdrive.services.s2.server.streams import has_segment
from logdrive.store.streams.errors import NoSuchScopeError, NoSuchStreamError
from logdrive.store.streams.streams import Streams

_RETRY_SECONDS: Final = 10.0
"""Seconds until what failed is tried again."""
_log = structlog.get_logger("logdrive.store.s2")

Forget = Callable[[str], Awaitable[None]]
"""Ends what uses a segment, and deletes what is kept beside it; the segment itself remains."""


class Purger:
    """Deletes what the registry says is to be deleted; *forget* is called for each segment."""

    def __init__(
        self, registry: Registry, streams: Streams, *, forget: Forget, clock: Clock
    ) -> None:
        self._registry = registry
        self._streams = streams
        self._forget = forget
        self._clock = clock
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Look for something to delete, soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Delete until cancelled; what fails is tried again."""
        while True:
            self._wanted.clear()
            try:
                await self.purge()
            except LogdriveError as error:
                _log.warning("a stream can't be deleted yet", reason=str(error))
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                await self._wanted.wait()

    async def purge(self) -> None:
        """Delete all that is to be deleted. Raises what the store raises."""
        state = self._registry.state
        for basin, streams in list(state.streams.items()):
            for name, stream in list(streams.items()):
                if stream.deleted_ms is not None:
                    await self._purge_stream(basin, name, stream)
        for basin, there in list(state.basins.items()):
            if there.deleted_ms is not None:
                await self._purge_basin(basin)

    async def _purge_stream(self, basin: str, name: str, stream: RegisteredStream) -> None:
        await self._forget(stream.segment)
        try:
            if has_segment(await self._streams.stream(basin, stream.stream), basin, stream):
                await self._streams.seal(basin, stream.stream)
                await self._streams.delete(basin, stream.stream)
        except (NoSuchStreamError, NoSuchScopeError):
            pass  # another face has deleted it
        async with self._registry.turn():
            await self._registry.commit_puts([S2StreamPut(basin, name, None)])

    async def _purge_basin(self, basin: str) -> None:
        for stream in list(self._registry.state.streams.get(basin, {}).values()):
            await self._forget(stream.segment)
        with contextlib.suppress(NoSuchScopeError):
            await self._streams.delete_scope_with_all(basin)
        async with self._registry.turn():
            await self._registry.commit_puts([BasinPut(basin, None)])
