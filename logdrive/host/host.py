"""The host that a program runs on, as one argument: clock, disk, network, threads and randomness.

The commands pass the real ones (`logdrive.cli.runtime`), tests simulated ones: the program can't
tell. Nothing in the programs reads the time, the disk or the network by another way.
"""

from dataclasses import dataclass, field
from random import Random, SystemRandom

from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.host.rpc import ServeRpc
from logdrive.host.transport import Transport


@dataclass(frozen=True, kw_only=True)
class Host:
    """Everything that a program takes from its host."""

    clock: Clock  # the only source of time
    disk: Disk  # files by path
    transport: Transport  # makes and accepts connections
    executor: Executor  # runs blocking work; a store needs one with a single thread
    random: Random = field(default_factory=SystemRandom)  # jitter, and choices among hosts
    serve_rpc: ServeRpc | None = None  # serves a store's controller; None: over gRPC
