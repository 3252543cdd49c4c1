"""What happens in one history, as data: so that it can be printed, saved, replayed and cut down.

Who takes part, how the network and the disks are, and steps, each at its time. A step carries its
own seed for what is random within it, so leaving one out changes nothing in the others. What is not
planned (how reads split, jitter, backoff) comes from generators of the same seed, one for each
part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from logdrive.model.units import KIB

WINDOW_BYTES = 64 * KIB
LONG_PATIENCE_MS = 3_600_000
"""Longer than any history: who has noted a time is waited for until it leaves."""

ALIKE_OVER_S2 = frozenset({155})
"""In the histories of these seeds, over S2, a file is truncated while its agent is down, with a
checkpoint that does not know of the file, and begins as before: two lives in one source, which only
numbers would tell (rule S5).
"""


@dataclass(frozen=True, slots=True)
class Step:
    """At *at* seconds *kind* happens to *who*; *values* are what `steps` of that kind takes."""

    at: float
    kind: str
    who: str
    values: dict[str, Any] = field(default_factory=dict)
    number: int = 0

    def __str__(self) -> str:
        values = " ".join(
            f"{name}={value}" for name, value in self.values.items() if name != "seed"
        )
        return f"{self.kind} {self.who} {values}".rstrip()


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """One host with an agent.

    *handles* is how many it may have open in all, 0 for as many as it likes.

    *keep_removed_bytes* is how much of deleted files it may hold open, 0 for its usual. Its file
    system gives inodes away again (*inodes_reused*), says when a file was born (*births_told*), and
    has another device number after a reboot (*devices_renumbered*).
    """

    name: str
    output: dict[str, Any]
    close_idle_seconds: float
    start: str
    max_open_files: int = 8192
    handles: int = 0
    keep_removed_bytes: int = 0
    inodes_reused: bool = False
    births_told: bool = True
    devices_renumbered: bool = False

    @property
    def plain(self) -> bool:
        """Whether the agent speaks the plain dialect."""
        return bool(self.output.get("dialect", "logdrive/1") != "logdrive/1")


@dataclass(frozen=True, slots=True)
class Plan:
    """One history.

    *shared*: the receivers append to one store over the network; otherwise each has its own.

    *direct*: logs are written past the page cache. *scaled*: the stores have controllers, and the
    stream's segments change; without, they stay as they were made. *kept_bytes* is what retention
    leaves of the stream, *kept_ms* how old that gets at most, each 0 for no limit; *clients* use a
    table at the first store, *writers* write transactions there, *tickers* note times, and are
    waited for *patience_ms* when they don't. *pending_bytes* is what the shared store lets wait for
    its disk, *outbox_bytes* what may wait for one peer of a receiver, each 0 for its usual.
    *sources_bytes* is what sources may take of a receiver's memory until the operator, told that
    some were refused, gives it the usual; 0: from the start.

    *s2*: the receivers append to the shared store by S2's protocol, and it is read by it, too.
    """

    seed: int
    agents: tuple[AgentPlan, ...]
    receivers: tuple[str, ...]
    beats: tuple[str, ...]
    shared: bool
    balanced: bool
    delay: float
    jitter: float
    capacity: int
    sync_seconds: float
    log_file_bytes: int
    steps: tuple[Step, ...]
    receiver_bytes: int = 8192 * KIB
    direct: bool = True
    scaled: bool = False
    kept_bytes: int = 0
    clients: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    tickers: tuple[str, ...] = ()
    patience_ms: int = 0
    kept_ms: int = 0
    pending_bytes: int = 0
    sources_bytes: int = 0
    outbox_bytes: int = 0
    s2: bool = False

    @property
    def retained(self) -> bool:
        """Whether there is retention."""
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

    def without_clients(self) -> "Plan":
        """Return the same without those who use a table."""
        return replace(
            self,
            clients=(),
            steps=tuple(step for step in self.steps if step.who not in self.clients),
        )

    def without_writers(self) -> "Plan":
        """Return the same without those who write transactions."""
        return replace(
            self,
            writers=(),
            steps=tuple(step for step in self.steps if step.who not in self.writers),
        )

    def without_tickers(self) -> "Plan":
        """Return the same without those who note times."""
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

    def kept_whole(self) -> "Plan":
        """Return the same without retention."""
        return replace(self, kept_bytes=0, kept_ms=0)

    def roomy(self) -> "Plan":
        """Return the same with the usual room for handles, deleted files, sources and what
        waits.
        """
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
        """Write it down, so that it stays the same history however plans are drawn in future."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
