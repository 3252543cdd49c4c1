"""Encoders of all connections: each has its own form, with the dialect that is spoken on it."""

from collections.abc import Callable

from agent.config.output import OutputTable
from agent.delivery.encoders import Encoders
from agent.delivery.recast import recast
from agent.sources.queue import SendQueue
from agent.sources.source import Source
from logdrive.records.blocks import Encoder


class ConnectionEncoders:
    """The encoders by connection; *make* makes those of a connection by its settings."""

    def __init__(self, send_queue: SendQueue, make: Callable[[OutputTable], Encoders]) -> None:
        self._send_queue = send_queue
        self._make = make
        self._encoders: dict[int, Encoders] = {}  # by number of the connection

    def add(self, number: int, settings: OutputTable) -> Encoders:
        """Return the encoders of a new connection."""
        encoders = self._make(settings)
        self._encoders[number] = encoders
        return encoders

    def remove(self, number: int) -> None:
        """Forget those of a connection that is made no more."""
        del self._encoders[number]

    def encoder_for(self, source: Source) -> Encoder:
        """Return an encoder for what is read of *source* on the connection that it lives on."""
        queue = self._send_queue.queue_of(source)
        assert queue is not None, "there is always a connection"
        return self._encoders[queue.number].encoder_for(source)

    def recast(self, source: Source, before: int, after: int) -> None:
        """Re-encode the runs of a source that has moved, if its new connection can't carry them.

        *before* and *after* are the numbers of the connections.
        """
        former, encoders = self._encoders.get(before), self._encoders[after]
        if source.unacknowledged and (former is None or not encoders.carries(former.form)):
            recast(source, encoders.encoder_for(source))
