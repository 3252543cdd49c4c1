"""What all sessions of one receiver share."""

import asyncio
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import structlog

from logdrive.clock import Clock
from logdrive.net.stream import Peer
from logdrive.sinks.base import Sink
from receiver.config import ListenConfig
from receiver.counters import Counters
from receiver.memory import Memory
from receiver.router import Router
from receiver.writers import CountingWriters, WriterTable


@dataclass(kw_only=True)
class Services:
    """One of each. *dead* is the dead-letter stream; *store* the store id, as headers write it."""

    listen: ListenConfig
    clock: Clock
    random: Random
    memory: Memory
    router: Router
    sink: Sink
    writers: WriterTable
    foreign: CountingWriters
    dead: CountingWriters
    counters: Counters = field(default_factory=Counters)
    log: structlog.stdlib.BoundLogger = field(default_factory=lambda: structlog.get_logger("receiver"))
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None

    @property
    def store(self) -> str:
        """The store id as headers write it."""
        return str(self.sink.store_id)

    def identity_of(self, peer: Peer) -> str:
        """Return who *peer* is: what its certificate says, unless the configuration fixes it (rule D6)."""
        return self.listen.identity if self.listen.identity is not None else peer.identity

    def fail(self, error: BaseException) -> None:
        """End the receiver: from now on nothing is acknowledged. The first failure counts."""
        if self.failure is None:
            self.failure = error
            self.failed.set()

    def new_id(self) -> UUID:
        """Return a random id."""
        return UUID(int=self.random.getrandbits(128), version=4)
