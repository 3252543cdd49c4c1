"""The registry of the S2 face: its own state, durable, and changed by one task at a time.

A turn examines the state and makes durable what it changes, here and in the store's catalog. If it
fails midway, the state in memory may differ from the store: the next turn replays the journal.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from logdrive.model.units import MIB
from logdrive.services.s2.server.state import SEGMENT, S2Put, S2State, decode_puts
from logdrive.store.engine import Store
from logdrive.store.journal import SegmentJournal
from logdrive.wire.s2.errors import S2Error


class Registry:
    """The state of basins, streams and access tokens of *store*, which must run meanwhile.

    *state* is for looking, without a turn: it may be replaced, so do not keep it.
    """

    def __init__(self, store: Store, *, slack: int = MIB) -> None:
        self.state = S2State()
        self._journal: SegmentJournal[S2State, S2Put] = SegmentJournal(
            store, SEGMENT, new_state=S2State, decode=decode_puts, slack=slack
        )
        self._turn = asyncio.Lock()
        # False if the state must be replayed from the journal first
        self._known = False

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[S2State]:
        """Lock the registry during the context. An `S2Error` leaves everything as it was."""
        async with self._turn:
            known, self._known = self._known, False
            if not known:
                self.state = await self._journal.replay()
            try:
                yield self.state
            except S2Error:
                self._known = True
                raise
            self._known = True

    @property
    def is_doubtful(self) -> bool:
        """True after a turn that failed: *state* may have what is not stored.

        The next turn reads it anew.
        """
        return not self._known and not self._turn.locked()

    async def commit_puts(self, puts: Sequence[S2Put]) -> None:
        """Make *puts* durable; only within a turn."""
        submitted: list[asyncio.Future[Any]] = [self._journal.append_puts(puts)]
        self.state.apply_puts(puts)
        submitted += self._journal.shorten(self.state)
        await asyncio.gather(*submitted)
