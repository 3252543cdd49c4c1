"""What the handlers of the S2 face work with: one object for one store."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from logdrive.errors import StorageError, TransientError
from logdrive.host.clock import Clock
from logdrive.model.units import MIB
from logdrive.services.auth.users import Users
from logdrive.services.numbering.segments import NumberedSegments
from logdrive.services.refusals import RefusalLog
from logdrive.services.s2.server.access_tokens import AccessTokens
from logdrive.services.s2.server.basins import Basins
from logdrive.services.s2.server.budget import ByteBudget
from logdrive.services.s2.server.counters import OperationCounters
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.services.s2.server.log.stream_logs import StreamLogs
from logdrive.services.s2.server.principals import Principal, Principals
from logdrive.services.s2.server.purging import Purger
from logdrive.services.s2.server.registry import Registry
from logdrive.services.s2.server.sessions import OpenSessions
from logdrive.services.s2.server.state import SEGMENT
from logdrive.services.s2.server.streams import FoundStream, S2Streams
from logdrive.services.s2.server.transit import Transit
from logdrive.services.s2.server.upkeep import Upkeep
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.streams import Streams

ARRIVING_BYTES: Final = 128 * MIB
"""Limit on the bytes of messages that have arrived in part, over all connections."""
LEAVING_BYTES: Final = 128 * MIB
"""Limit on the bytes of answers that clients have not read, over all connections."""
HELD_BYTES: Final = 128 * MIB
"""Limit on the bytes of appends that are not acknowledged, over all connections."""


class S2Service:
    """The parts of the S2 face of one store, and what they share."""

    def __init__(
        self,
        catalog: Catalog,
        numbering: NumberedSegments,
        *,
        users: Users | None,
        clock: Clock,
        random: Random,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self.store: Store = catalog.store
        self.clock = clock
        self.random = random
        self.budget = ByteBudget(held_bytes)
        self.arriving = Transit(ARRIVING_BYTES)
        self.leaving = Transit(LEAVING_BYTES)
        self.counters = OperationCounters(clock)
        self.refusals = RefusalLog(clock, "logdrive.store.s2")
        # set once sessions should move away
        self.draining = asyncio.Event()
        self.sessions = OpenSessions()
        self.anyone = Principal()
        self.registry = Registry(self.store)
        self.logs = StreamLogs(numbering, clock=clock, random=random)
        inside = Streams(catalog)
        self.purger = Purger(self.registry, inside, forget=self.logs.forget, clock=clock)
        self.basins = Basins(self.registry, inside, clock=clock, purge=self.purger.wake)
        self.streams = S2Streams(
            self.registry, self.basins, catalog, inside, clock=clock, purge=self.purger.wake
        )
        self.tokens = AccessTokens(self.registry, clock=clock, random=random)
        self.principals = Principals(self.tokens, users)
        self.upkeep = Upkeep(self.store, self.registry, self.streams, clock=clock)
        self._catalog = catalog

    async def start(self) -> None:
        """Read what is stored, and finish what a crash left undone, before any request comes."""
        await self.resolve_doubt()
        self.purger.wake()

    async def resolve_doubt(self) -> None:
        """Read again what a failed change left in doubt, before a request relies on it."""
        if self._catalog.is_doubtful:
            async with self._catalog.turn():
                pass
        if self.registry.is_doubtful:
            async with self.registry.turn():
                pass

    def drain(self) -> None:
        """Ask sessions to move away, and accept no more."""
        self.draining.set()
        self.sessions.drain()

    def healthy(self) -> bool:
        """Return whether requests can be served."""
        return not self.draining.is_set() and self.store_is_open()

    def store_is_open(self) -> bool:
        """Return whether the store accepts changes: it is open, and its disk has not failed."""
        try:
            self.store.unwatch(SEGMENT, self.store.watch(SEGMENT))
        except (StorageError, TransientError):
            return False
        return True

    async def open_log(self, found: FoundStream) -> StreamLog:
        """Return the log of a stream. Raises what the store raises."""
        return await self.logs.open(found.segment, self._settings_of(found))

    def _settings_of(self, found: FoundStream) -> Callable[[], LogSettings]:
        """Return a function that returns what is in force for the stream's records."""

        def settings() -> LogSettings:
            now = self.streams.known(found.basin, found.name) or found
            return LogSettings(now.config.mode, now.config.uncapped, now.cipher)

        return settings

    # For metrics ---------------------------------------------------------------------------------

    def active_basins(self) -> list[str]:
        """Return the basins that are registered and not being deleted."""
        basins = self.registry.state.basins
        return sorted(name for name, basin in basins.items() if basin.deleted_ms is None)

    def stored_bytes(self, basin: str) -> int:
        """Return the bytes in the segments of a basin."""
        return sum(map(self.segment_bytes, self.store.segments(f"{basin}/")))

    def segment_bytes(self, segment: str) -> int:
        """Return the bytes in a segment."""
        info = self.store.info(segment)
        return info.length - info.start if info is not None else 0
