"""The plan of a history, as data that can be printed, saved, replayed and cut down.

It has the hosts, the network, the disks, and steps, each at its time. A step has a seed of its own,
so that leaving it out changes nothing in the others. What is not planned (how reads split, jitter,
backoff) comes from generators of the plan's seed, one for each part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from logdrive.model.units import KIB

WINDOW_BYTES = 64 * KIB
Unpack = Literal["no", "blocks", "full"]
"""What [sink] unpack of a receiver may be."""
PROCESSORS = ("exclude", "add")
"""What agents may do with events: leave some out, or give them fields, so that each is a record."""
LONG_PATIENCE_MS = 3_600_000
"""Longer than any history: watermarks wait for each writer that noted a time, until it leaves."""

ALIKE_OVER_S2 = frozenset({155})
"""In the histories of these seeds, over S2, a file is truncated while its agent is down, with a
checkpoint that does not know of the file, and begins as before: two lives in one source, which only
numbers would tell (rule S5).
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a history."""

    at: float  # seconds since its beginning
    kind: str  # a method of `Steps`, or of `Applications`
    who: str  # host that it happens to
    values: dict[str, Any] = field(default_factory=dict)  # arguments of the method
    number: int = 0  # in the order of drawing, for recipes

    def __str__(self) -> str:
        values = " ".join(
            f"{name}={value}" for name, value in self.values.items() if name != "seed"
        )
        return f"{self.kind} {self.who} {values}".rstrip()


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """One host with an agent."""

    name: str
    output: dict[str, Any]  # its [output] table
    close_idle_seconds: float
    start: str  # "beginning" or "end"
    max_open_files: int = 8192
    handles: int = 0  # limit on its open files of all kinds; 0 for none
    keep_removed_bytes: int = 0  # 0 for the default
    inodes_reused: bool = False  # its file system gives inodes of removed files away again
    births_told: bool = True  # its file system has birth times
    devices_renumbered: bool = False  # its device numbers change with a reboot
    several_lines: bool = False  # events are lines up to one whose number ends with 0 or 5
    longest: int = 0  # bytes of an event that are sent; 0 for all
    encoding: str = "utf-8"  # that the agent takes its files for
    processors: tuple[str, ...] = ()  # of `PROCESSORS`, in this order

    @property
    def plain(self) -> bool:
        """True if the agent speaks plain Lumberjack."""
        return bool(self.output.get("dialect", "logdrive/1") != "logdrive/1")


@dataclass(frozen=True, slots=True)
class Plan:
    """One history."""

    seed: int
    agents: tuple[AgentPlan, ...]
    receivers: tuple[str, ...]  # hosts
    beats: tuple[str, ...]  # foreign peers
    shared: bool  # the receivers append to one store over the network; else each has its own
    balanced: bool  # agents connect to a balancer before the receivers
    delay: float  # seconds that bytes take over the network
    jitter: float  # limit on further seconds, drawn at random
    capacity: int  # bytes that a connection carries at a time
    sync_seconds: float  # duration of a sync
    log_file_bytes: int  # size of a store's log files
    steps: tuple[Step, ...]
    receiver_bytes: int = 8192 * KIB  # limit on a receiver's memory
    direct: bool = True  # log files are written past the page cache
    scaled: bool = False  # the stores have controllers, and the stream's segments change
    kept_bytes: int = 0  # bytes of the stream that retention leaves; 0 for no limit
    clients: tuple[str, ...] = ()  # users of a table at the first store
    writers: tuple[str, ...] = ()  # writers of transactions at the first store
    tickers: tuple[str, ...] = ()  # writers that note times at the first store
    patience_ms: int = 0  # watermarks wait so long for a ticker that notes no time
    kept_ms: int = 0  # age up to which retention leaves batches; 0 for no limit
    pending_bytes: int = 0  # limit on what waits for the shared store's disk; 0 for the default
    # Limit on a receiver's memory for sources, until the operator gives it the default once all is
    # calm; 0 for the default from the start.
    sources_bytes: int = 0
    outbox_bytes: int = 0  # limit on what waits for one peer of a receiver; 0 for the default
    s2: bool = False  # receivers append to the shared store over S2, and it is read over S2
    iggy: bool = False  # the same over Iggy's protocol
    # The shared store is no store of ours, but an Iggy with the faults of real ones: "drawn" from
    # the seed, or "scripted", which has those that a test asks for.
    faulty_iggy: str = ""
    tls: bool = True  # between agents, foreign peers and receivers
    old: tuple[str, ...] = ()  # hosts whose programs begin in the version before packs
    unpack: dict[str, Unpack] = field(default_factory=dict)  # receiver -> its [sink] unpack
    liars: tuple[str, ...] = ()  # peers that send packs whose inside lies

    @property
    def retained(self) -> bool:
        """True if there is retention."""
        return bool(self.kept_bytes or self.kept_ms)

    @property
    def stores(self) -> tuple[str, ...]:
        """The hosts that have a store."""
        return ("store",) if self.shared else self.receivers

    def with_steps(self, steps: Sequence[Step]) -> "Plan":
        """Return the same with only *steps*."""
        return replace(self, steps=tuple(steps))

    def without_agent(self, name: str) -> "Plan":
        """Return the same without one agent and what happens to it."""
        agents = tuple(agent for agent in self.agents if agent.name != name)
        return replace(
            self, agents=agents, steps=tuple(step for step in self.steps if step.who != name)
        )

    def without_beats(self) -> "Plan":
        """Return the same without foreign peers."""
        return replace(
            self, beats=(), steps=tuple(step for step in self.steps if step.who not in self.beats)
        )

    def without_liars(self) -> "Plan":
        """Return the same without peers that send packs whose inside lies."""
        return replace(
            self, liars=(), steps=tuple(step for step in self.steps if step.who not in self.liars)
        )

    def of_one_version(self) -> "Plan":
        """Return the same with programs of the present version only, and TLS."""
        steps = tuple(step for step in self.steps if step.kind != "install")
        return replace(self, old=(), tls=True, steps=steps)

    def kept_packed(self) -> "Plan":
        """Return the same with receivers that store packs as they come."""
        return replace(self, unpack={})

    def without_clients(self) -> "Plan":
        """Return the same without users of a table."""
        return replace(
            self,
            clients=(),
            steps=tuple(step for step in self.steps if step.who not in self.clients),
        )

    def without_writers(self) -> "Plan":
        """Return the same without writers of transactions."""
        return replace(
            self,
            writers=(),
            steps=tuple(step for step in self.steps if step.who not in self.writers),
        )

    def without_tickers(self) -> "Plan":
        """Return the same without writers that note times."""
        return replace(
            self,
            tickers=(),
            patience_ms=0,
            steps=tuple(step for step in self.steps if step.who not in self.tickers),
        )

    def unscaled(self) -> "Plan":
        """Return the same with a stream that stays as it was made."""
        plan = self.without_writers().without_tickers()
        return replace(
            plan, scaled=False, steps=tuple(step for step in plan.steps if step.kind != "scale")
        )

    def over_s2(self) -> "Plan":
        """Return the same over S2: one stream that is neither scaled nor cut, and nobody who speaks
        Pravega's protocol. No agent forgets its checkpoint, and no store is restored from a
        backup: where no numbers are kept, nothing else tells lives apart that begin alike, nor what
        a store has lost (rule S5).
        """
        plan = self.unscaled().without_clients().kept_whole()
        steps = [step for step in plan.steps if step.kind not in ("forget", "restore")]
        return replace(plan.with_steps(steps), shared=True, s2=True)

    def over_iggy(self) -> "Plan":
        """Return the same over Iggy's protocol, which keeps no numbers either: see `over_s2`."""
        return replace(self.over_s2(), s2=False, iggy=True)

    def over_faulty_iggy(self) -> "Plan":
        """Return the same over an Iggy with the faults of real servers, drawn from the seed."""
        return replace(self.over_iggy(), faulty_iggy="drawn")

    def kept_whole(self) -> "Plan":
        """Return the same without retention."""
        return replace(self, kept_bytes=0, kept_ms=0)

    def roomy(self) -> "Plan":
        """Return the same with the default limits on handles, deleted files, memory and queues."""
        agents = tuple(replace(agent, handles=0, keep_removed_bytes=0) for agent in self.agents)
        return replace(self, agents=agents, pending_bytes=0, sources_bytes=0, outbox_bytes=0)

    def ordinary(self) -> "Plan":
        """Return the same on file systems that tell files apart by inode, birth time and device."""
        usual: dict[str, Any] = {
            "inodes_reused": False,
            "births_told": True,
            "devices_renumbered": False,
        }
        return replace(self, agents=tuple(replace(agent, **usual) for agent in self.agents))

    def at_once(self) -> "Plan":
        """Return the same on a network without delays."""
        return replace(self, delay=0.0, jitter=0.0)

    def save(self, path: Path) -> None:
        """Write the plan to *path*; it stays the same history however plans are drawn in future."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
