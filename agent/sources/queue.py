"""Which sources want something of the connection: to be registered, or to send.

Filled by the tailer, emptied by the session.

Pacing is rule D9's: while nothing is in flight a line leaves at once; else a source's next run may
wait, unless there is much.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from agent.sources.source import Source, SourceState
from logdrive.model.units import KIB

BULK_BYTES: Final = 256 * KIB
PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 2.0
_SOURCES_PER_PAUSE: Final = 1000
"""With more open sources than this the pause grows with their number."""


class SendQueue:
    """Ordered by who came first. *changed* is set whenever something came to be wanted."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.waiting: dict[Source, None] = {}
        self.ready: dict[Source, float] = {}
        self._bulk: dict[Source, None] = {}

    def __bool__(self) -> bool:
        return bool(self.waiting or self.ready)

    def want(self, source: Source, now: float) -> None:
        """Take notice that *source* has something to send or to ask; while it awaits an answer,
        that comes first.
        """
        if source.state is SourceState.IDLE:
            if source not in self.waiting:
                self.waiting[source] = None
                self.changed.set()
        elif source.state is SourceState.OPEN:
            if source not in self.ready:
                self.ready[source] = now
                self.changed.set()
            if source not in self._bulk and source.backlog >= BULK_BYTES:
                self._bulk[source] = None
                self.changed.set()

    def forget(self, source: Source) -> None:
        """Take notice that *source* wants nothing now."""
        self.waiting.pop(source, None)
        self.ready.pop(source, None)
        self._bulk.pop(source, None)

    def begin(self, sources: Iterable[Source], now: float) -> None:
        """Start on a new connection, on which nobody is registered."""
        self.waiting.clear()
        self.ready.clear()
        self._bulk.clear()
        for source in sources:
            source.connected(now)
            if source.has_more or source.must_register:
                self.want(source, now)

    def ask(self, source: Source) -> None:
        """Let *source* ask (again), whatever it has to send."""
        self.waiting[source] = None
        self.changed.set()

    def next_waiting(self) -> Source | None:
        """Take out the source that has waited longest to be registered and can be now."""
        for source in self.waiting:
            if source.may_register:
                del self.waiting[source]
                return source
        return None

    def next_ready(self) -> Source | None:
        """Take out the source that has been ready for longest."""
        for source in self.ready:
            del self.ready[source]
            self._bulk.pop(source, None)
            self._let_go()
            return source
        return None

    def _let_go(self) -> None:
        """Keep no room in tables that are empty: a dictionary keeps that of the most it ever
        held.
        """
        if not self.ready:
            self.ready, self._bulk = {}, {}
        if not self.waiting:
            self.waiting = {}

    def due_in(self, now: float, *, in_flight: bool, open_sources: int) -> float | None:
        """Return in how many seconds the next window is due, None while nobody is ready (rule
        D9).
        """
        if not self.ready:
            return None
        if self._bulk or not in_flight:
            return 0.0
        pause = min(
            LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * max(1.0, open_sources / _SOURCES_PER_PAUSE)
        )
        return max(0.0, next(iter(self.ready.values())) + pause - now)
