"""What all sessions of one receiver share."""

from dataclasses import dataclass, field
from random import Random

import structlog

from logdrive.host.clock import Clock
from logdrive.host.heap import Heap
from logdrive.host.transport import Peer
from logdrive.net.turns import Turns
from logdrive.services.sink import Sink
from logdrive.store.running import Failure
from receiver.config import ListenConfig, Unpack
from receiver.counters import Counters
from receiver.memory_budget import MemoryBudget
from receiver.outbox import WAITING_BYTES
from receiver.router import Router
from receiver.source_quota import SourceQuota
from receiver.writers import CountingWriters, WriterTable


@dataclass(kw_only=True)
class ReceiverServices:
    """What all sessions share, one object of each."""

    listen: ListenConfig
    clock: Clock
    random: Random
    memory: MemoryBudget
    source_quota: SourceQuota
    router: Router
    sink: Sink
    writers: WriterTable  # of `logdrive/1` sources
    foreign_writers: CountingWriters  # of plain Lumberjack peers
    dead_letter_writers: CountingWriters  # into the dead-letter stream
    failure: Failure  # set if the disk fails, which ends the receiver
    unpack: Unpack = "no"  # how what packs hold is stored
    outbox_bytes: int = WAITING_BYTES  # limit on what waits to be written to one peer
    heap: Heap = field(default_factory=Heap)
    turns: Turns = field(default_factory=Turns)
    counters: Counters = field(default_factory=Counters)
    log: structlog.stdlib.BoundLogger = field(
        default_factory=lambda: structlog.get_logger("receiver")
    )

    @property
    def store(self) -> str:
        """The store's id, as text for batch headers."""
        return str(self.sink.store_id)

    def identity_of(self, peer: Peer) -> str:
        """Return the client identity of *peer*: the configured one, else that of its certificate
        (rule D6).
        """
        return self.listen.identity if self.listen.identity is not None else peer.identity
