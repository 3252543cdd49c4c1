"""What all sessions of one receiver share."""

from dataclasses import dataclass, field
from random import Random

import structlog

from logdrive.host.clock import Clock
from logdrive.host.heap import Heap
from logdrive.net.stream import Peer
from logdrive.net.turns import Turns
from logdrive.services.sink import Sink
from logdrive.store.running import Failure
from receiver.config import ListenConfig
from receiver.counters import Counters
from receiver.memory_budget import MemoryBudget
from receiver.outbox import WAITING_BYTES
from receiver.router import Router
from receiver.source_quota import SourceQuota
from receiver.writers import CountingWriters, WriterTable


@dataclass(kw_only=True)
class ReceiverServices:
    """One of each. *dead* writes to the dead-letter stream.

    *failure* is told what ends the receiver: a disk that failed. *outbox_bytes* is what may wait to
    be written to one peer.
    """

    listen: ListenConfig
    clock: Clock
    random: Random
    memory: MemoryBudget
    source_quota: SourceQuota
    router: Router
    sink: Sink
    writers: WriterTable
    foreign_writers: CountingWriters
    dead_letter_writers: CountingWriters
    failure: Failure
    outbox_bytes: int = WAITING_BYTES
    heap: Heap = field(default_factory=Heap)
    turns: Turns = field(default_factory=Turns)
    counters: Counters = field(default_factory=Counters)
    log: structlog.stdlib.BoundLogger = field(
        default_factory=lambda: structlog.get_logger("receiver")
    )

    @property
    def store(self) -> str:
        """The store id as headers write it."""
        return str(self.sink.store_id)

    def identity_of(self, peer: Peer) -> str:
        """Return who *peer* is: what its certificate says, unless the configuration fixes it (rule
        D6).
        """
        return self.listen.identity if self.listen.identity is not None else peer.identity
