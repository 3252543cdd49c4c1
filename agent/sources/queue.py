"""Send queue: passes each source on to the queue of the connection that it is sent on.

A source lives on one connection. It gets one when it first has something to send, and moves to
another only when nothing of it is in flight (rule D10). With one connection, as to a single
receiver, all sources live there.
"""

from collections.abc import Callable

from agent.sources.connection_queue import ConnectionQueue
from agent.sources.source import Source


class SendQueue:
    """The queues of all connections, by number."""

    def __init__(self) -> None:
        self.connections: dict[int, ConnectionQueue] = {}
        """The queue of each connection; read-only outside of this file."""
        self._next = 0  # the number of the next connection

    def add_connection(self) -> ConnectionQueue:
        """Return the queue of a new connection."""
        queue = ConnectionQueue(self._next)
        self.connections[self._next] = queue
        self._next += 1
        return queue

    def remove_connection(self, queue: ConnectionQueue) -> None:
        """Forget a connection that is made no more; its sources have none until they move."""
        del self.connections[queue.number]

    def enqueue(self, source: Source, now: float) -> None:
        """Add *source*, which has something to send; *now* is the monotonic time in seconds."""
        queue = self.queue_of(source)
        if queue is not None:
            queue.enqueue(source, now)

    def on_file_open(self, source: Source) -> None:
        """Let *source*, whose file could not be read and is open now, go on at once."""
        queue = self.queue_of(source)
        if queue is not None:
            queue.on_file_open(source)

    def queue_of(self, source: Source) -> ConnectionQueue | None:
        """Return the queue of the connection that *source* lives on; None before there is any.

        A source without a connection gets the one with the fewest sources, of those that can send.
        """
        queue = self.connections.get(source.connection)
        return queue if queue is not None else self._assign_anew(source)

    def assign(self, source: Source, queue: ConnectionQueue) -> None:
        """Let *source* live on the connection of *queue*; nothing of it may be in flight."""
        before = self.connections.get(source.connection)
        if before is not None:
            before.forget(source)
        queue.adopt(source)

    def forget(self, source: Source) -> None:
        """Take out *source* for good: it is sent no more."""
        queue = self.connections.get(source.connection)
        if queue is not None:
            queue.forget(source)

    def release(self, source: Source, then: Callable[[Source], None]) -> None:
        """Call *then* with *source* once it is off its connection, with nothing in flight."""
        queue = self.queue_of(source)
        if queue is None:
            then(source)
        else:
            queue.release(source, then)

    def keep(self, source: Source, now: float) -> None:
        """Let a source that was to be released stay on its connection."""
        queue = self.queue_of(source)
        if queue is not None:
            queue.keep(source, now)

    def register_again(self, source: Source, now: float) -> None:
        """Let *source* register anew: what its S frame says has changed."""
        queue = self.queue_of(source)

        def enqueue(source: Source) -> None:
            source.registration.require()
            self.enqueue(source, now)

        # a source that leaves registers elsewhere anyway
        if queue is not None and not queue.is_leaving(source):
            queue.release(source, enqueue)

    def _assign_anew(self, source: Source) -> ConnectionQueue | None:
        queues = list(self.connections.values())
        if len(queues) == 1:  # as to a single receiver, for each of 100,000 files
            queues[0].adopt(source)
            return queues[0]
        untried = [queue for queue in queues if queue.on_trial and not queue.sources]
        usable = untried or [queue for queue in queues if queue.is_up] or queues
        if not usable:
            return None
        queue = min(usable, key=lambda queue: queue.sources)
        queue.adopt(source)
        return queue
