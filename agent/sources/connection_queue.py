"""Queue of one connection: its sources that need to register, and those that have data to send.

Inputs fill it, through the `SendQueue`, when a file has grown; the session empties it. Pacing
follows rule D9: while no window is in flight, a line leaves at once. Otherwise runs may wait a
little, so that windows hold more, unless a source has much to send.

A source that is to leave the connection is sent no further. It leaves once nothing of it is in
flight and no answer for it is awaited, or with the end of the session.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

from agent.sources.registration import SourceState
from agent.sources.source import Source
from logdrive.model.units import KIB

BULK_BYTES: Final = 256 * KIB
"""A source with this much to send does not wait."""
PAUSE_SECONDS: Final = 0.2
"""Longest wait of a run while windows are in flight."""
LONGEST_PAUSE_SECONDS: Final = 2.0
"""The same, with thousands of open sources."""
_SOURCES_PER_PAUSE: Final = 1000
"""With more open sources than this the pause grows with their number."""


class ConnectionQueue:
    """Sources of one connection in the order in which they came."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        """Names the connection, in `Source.connection`; no number is given twice."""
        self.is_up = False
        """Whether sources may be given to the connection; `SourceSpread` sets it."""
        self.on_trial = False
        """Whether it has failed before, and gets one source until that is stored; likewise."""
        self.sources = 0
        """How many sources live on the connection."""
        self.paused: dict[Source, None] = {}
        """Refused sources, in the order in which they were refused. A dialect fills it."""
        self.has_session = False
        """Whether sources may be registered or in flight now; read-only outside of this file."""
        # sources that are to leave, and what is called then
        self._leaving: dict[Source, Callable[[Source], None]] = {}
        self._to_register: dict[Source, None] = {}  # sources that are to register
        # those of them whose file holds one of the few handles: the others would find none
        self._with_handle: dict[Source, None] = {}
        self._to_send: dict[Source, float] = {}  # open sources, and when each came (monotonic, s)
        self._bulk: dict[Source, None] = {}  # those of them with much to send
        # sources that are to be read no faster, and from when on (monotonic, s)
        self._held: dict[Source, float] = {}
        self._woken = asyncio.Event()  # set when the session has something to do

    def __bool__(self) -> bool:
        return bool(self._to_register or self._to_send)

    @property
    def has_to_register(self) -> bool:
        """Whether a source is there that is to register, now or once it may."""
        return bool(self._to_register)

    @property
    def others_wait(self) -> bool:
        """Whether a source is there that has something to send and may."""
        return bool(self._to_send)

    def enqueue(self, source: Source, now: float) -> None:
        """Add *source*, which has something to send: to register first, if it is not open.

        Does nothing while it waits for an answer, is paused, done, or to leave.
        """
        if source in self._leaving:
            return
        if source.state is SourceState.IDLE:
            if source not in self._to_register:
                self._to_register[source] = None
                self.wake()
        elif source.state is SourceState.OPEN:
            if source not in self._to_send:
                self._to_send[source] = now
                self.wake()
            # bulk is sent at once, without waiting for more
            if source not in self._bulk and source.backlog_bytes >= BULK_BYTES:
                self._bulk[source] = None
                self.wake()

    def hold(self, source: Source, until: float) -> None:
        """Enqueue *source*, which has more to send, at the monotonic time *until*."""
        self._held[source] = until

    def enqueue_registration(self, source: Source) -> None:
        """Add *source*, which is to register (again), whatever it has to send."""
        self._to_register[source] = None
        self.wake()

    @property
    def waits_for_receiver(self) -> bool:
        """Whether a source is paused for the receiver's own state."""
        return any(source.registration.waits_for_receiver for source in self.paused)

    def on_other_receiver(self) -> None:
        """Let sources register that were paused for the state of another receiver."""
        for source in self.paused:
            source.registration.on_other_receiver()

    def on_file_open(self, source: Source) -> None:
        """Let *source* register before others if its file could not be read until now."""
        source.registration.on_file_open()
        if source.state is not SourceState.PAUSED and source in self.paused:
            del self.paused[source]
            self.enqueue_registration(source)
        if source in self._to_register:
            self._with_handle[source] = None

    def retry_paused(self, now: float) -> float | None:
        """Let refused sources register again whose pause is over; return when the next one ends.

        Times are monotonic, in seconds; None without a further pause.
        """
        for source in list(self.paused):
            source.registration.end_pause_if_due(now)
            if source.state is not SourceState.PAUSED:
                del self.paused[source]
                self.enqueue_registration(source)
        return min((source.registration.retry_at for source in self.paused), default=None)

    def remove(self, source: Source) -> None:
        """Take *source* out."""
        self._to_register.pop(source, None)
        self._with_handle.pop(source, None)
        self._to_send.pop(source, None)
        self._bulk.pop(source, None)
        self._held.pop(source, None)

    def _rebuild(self, sources: Iterable[Source], now: float) -> None:
        """Fill the queue anew; those of *sources* whose pause is over may register again."""
        self._to_register.clear()
        self._with_handle.clear()
        self._to_send.clear()
        self._bulk.clear()
        self._held.clear()
        for source in sources:
            source.registration.end_pause_if_due(now)
            if source.has_more or source.registration.required:
                self.enqueue(source, now)

    # Sources that come and go ---------------------------------------------------------------------

    def adopt(self, source: Source) -> None:
        """Let *source*, which has nothing in flight, live on this connection."""
        assert not source.unacknowledged.sent
        source.connection = self.number
        self.sources += 1
        if source.state is SourceState.PAUSED:
            self.paused[source] = None
            self.wake()

    def forget(self, source: Source) -> None:
        """Take out *source* for good: it is done, or lives on another connection."""
        self.remove(source)
        self.paused.pop(source, None)
        self._leaving.pop(source, None)
        self.sources -= 1

    def release(self, source: Source, then: Callable[[Source], None]) -> None:
        """Call *then* with *source* once nothing of it is in flight; send it no further.

        It is unregistered by then. Without a session that is at once. Replaces an earlier *then*.
        """
        self.remove(source)
        if self.has_session:
            self._leaving[source] = then
            self.wake()
        else:
            then(source)

    def keep(self, source: Source, now: float) -> None:
        """Let a source that was to leave stay."""
        if self._leaving.pop(source, None) is not None and source.has_more:
            self.enqueue(source, now)

    def is_leaving(self, source: Source) -> bool:
        """Return whether *source* is to leave."""
        return source in self._leaving

    def take_leaving(self) -> list[tuple[Source, Callable[[Source], None]]]:
        """Take out the sources that can leave now, each with what to call once it is off."""
        if not self._leaving:
            return []
        able = [
            (source, then)
            for source, then in self._leaving.items()
            if not source.unacknowledged.sent and source.state is not SourceState.ASKING
        ]
        for source, _ in able:
            del self._leaving[source]
            self.remove(source)
        return able

    def begin_session(self, sources: Iterable[Source], now: float) -> None:
        """Fill the queue for a session on which none of its *sources* is registered yet."""
        self.has_session = True
        self._rebuild(sources, now)
        for source in sources:
            if source.state is SourceState.PAUSED:
                self.paused[source] = None  # pauses outlive connections

    def end_session(self, sources: Callable[[], Iterable[Source]], now: float) -> None:
        """Let go the sources that were to leave, and fill the queue with what *sources* returns.

        None of them is registered any more.
        """
        self.has_session = False
        leaving, self._leaving = self._leaving, {}
        for source, then in leaving.items():
            then(source)
        self._rebuild(sources(), now)

    # What is next --------------------------------------------------------------------------------

    def next_to_register(self) -> Source | None:
        """Take out the source that has waited longest to register and may do so now; those first
        for whose file others wait.
        """
        for source in chain(self._with_handle, self._to_register):
            if source.may_register:
                del self._to_register[source]
                self._with_handle.pop(source, None)
                return source
        return None

    def next_to_send(self) -> Source | None:
        """Take out the source that has waited longest to send."""
        for source in self._to_send:
            del self._to_send[source]
            self._bulk.pop(source, None)
            self._release_room()
            return source
        return None

    def _release_room(self) -> None:
        """Replace empty tables: a dictionary keeps the memory of the most it ever held."""
        if not self._to_send:
            self._to_send, self._bulk = {}, {}
        if not self._to_register:
            self._to_register = {}

    def seconds_until_due(self, now: float, *, in_flight: bool, open_sources: int) -> float | None:
        """Return in how many seconds the next window is due (rule D9); None without any to send.

        *in_flight* says whether a window is, *open_sources* how many sources are registered.
        """
        held = self._release_held(now)
        due = self._due_in(now, in_flight=in_flight, open_sources=open_sources)
        return min((seconds for seconds in (held, due) if seconds is not None), default=None)

    def _release_held(self, now: float) -> float | None:
        """Enqueue held sources whose time has come; return the seconds until the next one's."""
        for source in [source for source, until in self._held.items() if until <= now]:
            del self._held[source]
            self.enqueue(source, now)
        return min(self._held.values()) - now if self._held else None

    def _due_in(self, now: float, *, in_flight: bool, open_sources: int) -> float | None:
        if not self._to_send:
            return None
        # a large window is to be had at once, or the link is idle
        if self._bulk or not in_flight:
            return 0.0
        pause = min(
            LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * max(1.0, open_sources / _SOURCES_PER_PAUSE)
        )
        oldest = next(iter(self._to_send.values()))
        return max(0.0, oldest + pause - now)

    # Waking the session --------------------------------------------------------------------------

    def wake(self) -> None:
        """Wake the session: the queue changed, or a window may be sent that could not before."""
        self._woken.set()

    def clear_wake(self) -> None:
        """Forget earlier calls of `wake`; call it before looking for something to do."""
        self._woken.clear()

    async def wait_for_wake(self) -> None:
        """Wait until `wake` is called, if it was not since `clear_wake`."""
        await self._woken.wait()
