"""Spread of the sources over connections: evenly over those that are up (rule D10).

| what happens                            | then                                                   |
|-----------------------------------------|--------------------------------------------------------|
| a source has something to send first    | it gets the connection that is up with fewest sources  |
| a connection is made                    | it gets its share of the sources of the others         |
| one is made after failures              | it gets one source; its share once that was stored     |
| a connection fails                      | its sources go to the others; with none up they wait   |
| one is closed for its age, or while idle | nothing: it is made again                             |

A source moves only when nothing of it is in flight, so no acknowledgement is lost by it. Sources
with something to send are dealt out by themselves, so that idle ones do not count for busy ones.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from agent.delivery.connection_encoders import ConnectionEncoders
from agent.sources.connection_queue import ConnectionQueue
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.records.runs import FIRST_RUN

_ACTIVE_MS: Final = 60_000
"""A source that was acknowledged no longer ago than this counts as one with something to send."""


class SourceSpread:
    """Gives sources to connections, and moves them."""

    def __init__(
        self,
        registry: SourceRegistry,
        send_queue: SendQueue,
        encoders: ConnectionEncoders,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._send_queue = send_queue
        self._encoders = encoders
        self._clock = clock
        # Where sources go that are to leave their connections, but have something in flight.
        self._moving: dict[Source, ConnectionQueue] = {}
        # Connections that end and are made no more.
        self._closing: set[int] = set()
        # Connections whose store has yet to get the agent's own record.
        self._first_run_due: dict[int, ConnectionQueue] = {}

    # Connections that come and go ----------------------------------------------------------------

    def on_up(self, queue: ConnectionQueue, *, failed_before: bool) -> None:
        """Give a connection that was just made its share; one source if it *failed before*.

        A receiver that stores nothing may be reached, too: it must not take from the others what
        they can send. Call it before the session begins.
        """
        if queue.is_up:
            return
        others_up = any(other.is_up for other in self._send_queue.connections.values())
        source = self._most_active() if failed_before and others_up else None
        if source is None:
            self.on_proved(queue)
        else:
            queue.on_trial = True
            self._move(source, queue)

    def on_proved(self, queue: ConnectionQueue) -> None:
        """Give a connection its share: something that it sent was stored."""
        if not queue.is_up and queue.number not in self._closing:
            queue.is_up, queue.on_trial = True, False
            self.deal_out()

    def end_quiet_trials(self) -> None:
        """Give connections their share that are on trial with nothing to send; call it seldom."""
        for queue in list(self._send_queue.connections.values()):
            if queue.on_trial and not any(
                source.is_behind
                for source in self._registry.sources
                if source.connection == queue.number
            ):
                self.on_proved(queue)

    def on_down(self, queue: ConnectionQueue) -> None:
        """Give the sources of a connection that failed to the others, if any is up."""
        queue.is_up = queue.on_trial = False
        self._first_run_due.pop(queue.number, None)
        self.deal_out()

    def on_closing(self, queue: ConnectionQueue) -> None:
        """Give a connection no further source: it ends, and is made no more."""
        self._closing.add(queue.number)
        queue.is_up = queue.on_trial = False

    def remove(self, queue: ConnectionQueue) -> None:
        """Forget a connection that is made no more; its sources go to the others."""
        self.on_down(queue)
        others = [other for other in self._send_queue.connections.values() if other is not queue]
        for source in self._registry.sources if others else ():
            # no other is up: one that is to be made gets them
            if source.connection == queue.number:
                self._take_over(source, min(others, key=lambda other: other.sources))
        self._send_queue.remove_connection(queue)
        self._encoders.remove(queue.number)
        self._closing.discard(queue.number)

    # Sources -------------------------------------------------------------------------------------

    def assign(self, source: Source, queue: ConnectionQueue) -> None:
        """Let *source*, which was just revived, live on the connection of *queue*."""
        if source.connection != queue.number:
            self._send_queue.assign(source, queue)

    def enqueue(self, source: Source) -> None:
        """Enqueue *source* on the connection that it lives on."""
        self._send_queue.enqueue(source, self._clock.monotonic())

    def revive_first_run(self, queue: ConnectionQueue) -> list[Source]:
        """Return the agent's own source, so that the store of this connection has its record.

        While another connection has it, nothing is returned; it comes when that one is done.
        """
        revived = self._registry.revive_first_run(self._clock.now_ms())
        if not revived and any(
            _is_first_run(source)
            for source in self._registry.sources
            if source.connection != queue.number
        ):
            self._first_run_due[queue.number] = queue
        return revived

    def on_finished(self, source: Source) -> None:
        """Pass the agent's own source on to the next connection whose store may lack its record."""
        if not self._first_run_due or not _is_first_run(source):
            return
        queue = self._first_run_due.pop(next(iter(self._first_run_due)))
        for own in self._registry.revive_first_run(self._clock.now_ms()):
            own.registration.require()
            self.assign(own, queue)
            self.enqueue(own)

    # Dealing out ---------------------------------------------------------------------------------

    def deal_out(self) -> None:
        """Spread all sources evenly over the connections that are up.

        Takes about 1 µs a source.
        """
        self._forget_moved()
        connections = self._send_queue.connections.values()
        up = [queue for queue in connections if queue.is_up]
        if not up:
            # better a receiver that failed before than none
            up = [queue for queue in connections if queue.on_trial]
            for queue in up:
                queue.is_up, queue.on_trial = True, False
        if not up:
            return
        counts = dict.fromkeys((queue.number for queue in up), 0)
        if len(up) == 1:
            self._deal(self._registry.sources, up, counts)
            return
        now_ms = self._clock.now_ms()
        active, idle = list[Source](), list[Source]()
        for source in self._registry.sources:
            (active if _is_active(source, now_ms) else idle).append(source)
        self._deal(active, up, counts)
        self._deal(idle, up, counts)

    def _deal(
        self, sources: Iterable[Source], up: Sequence[ConnectionQueue], counts: dict[int, int]
    ) -> None:
        """Give *sources* to the connections of *up*, so that each has as many, or one more.

        *counts* are the sources that each has already, by number; those given are added.
        """
        having: dict[int, list[Source]] = {queue.number: [] for queue in up}
        homeless = list[Source]()
        for source in sources:
            moving_to = self._moving.get(source)
            number = source.connection if moving_to is None else moving_to.number
            having.get(number, homeless).append(source)

        by_number = {queue.number: queue for queue in up}
        for number, sources_there in having.items():
            counts[number] += len(sources_there)
        for source in homeless:
            fewest = min(counts, key=counts.__getitem__)
            counts[fewest] += 1
            self._move(source, by_number[fewest])

        while True:
            fewest = min(counts, key=counts.__getitem__)
            most = max(having, key=lambda number: (bool(having[number]), counts[number]))
            if not having[most] or counts[most] - counts[fewest] < 2:
                return
            counts[most] -= 1
            counts[fewest] += 1
            self._move(having[most].pop(), by_number[fewest])

    def _most_active(self) -> Source | None:
        """Return the source that is most likely to send something soon; None without sources."""
        return max(
            self._registry.sources,
            key=lambda source: (source.is_behind, source.acknowledged.at_ms),
            default=None,
        )

    def _forget_moved(self) -> None:
        """Forget moves of sources that are done, or were called back."""
        for source in list(self._moving):
            queue = self._send_queue.connections.get(source.connection)
            if source not in self._registry.sources or (
                queue is not None and not queue.is_leaving(source)
            ):
                del self._moving[source]

    def _move(self, source: Source, queue: ConnectionQueue) -> None:
        """Let *source* live on the connection of *queue* as soon as nothing of it is in flight."""
        before = self._send_queue.connections.get(source.connection)
        if before is queue and source not in self._moving:
            return
        self._moving[source] = queue
        if before is None:
            self._arrive(source)
        elif not before.is_leaving(source):
            before.release(source, self._arrive)

    def _arrive(self, source: Source) -> None:
        """Let *source*, which has left its connection, live on the one that it was to go to.

        Or on another one, if that has failed meanwhile.
        """
        queue, before = self._moving.pop(source, None), source.connection
        connections = self._send_queue.connections
        if queue is None or not (queue.is_up or queue.on_trial):
            queue = next((other for other in connections.values() if other.is_up), None)
        if queue is not None and queue.number != before:
            self._take_over(source, queue)
        if source.has_more or source.registration.required:
            self.enqueue(source)

    def _take_over(self, source: Source, queue: ConnectionQueue) -> None:
        """Let *source*, with nothing in flight, live on the connection of *queue*."""
        before = source.connection
        source.registration.on_other_receiver()
        self._send_queue.assign(source, queue)
        self._encoders.recast(source, before, queue.number)


def _is_active(source: Source, now_ms: int) -> bool:
    return source.is_behind or now_ms - source.acknowledged.at_ms < _ACTIVE_MS


def _is_first_run(source: Source) -> bool:
    return source.ended is not None and source.ended.reason == FIRST_RUN
