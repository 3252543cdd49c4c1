"""What happens in one history: drawn from a seed before anything runs, so that it can be printed, replayed and cut down.

A plan is data: who takes part, how the network and the disks are, and steps, each at its time. A step carries its own seed for
what is random within it, so leaving one out changes nothing in the others. What is not planned (how reads split, jitter, backoff)
comes from generators of the same seed, one for each part.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from logdrive import faults
from logdrive.limits import KIB

APPLICATIONS = ("a", "b", "c")
"""Each writes to a file of its name."""
WINDOW_BYTES = 64 * KIB
_LONGEST_PAUSE_SECONDS = 6.0
_LONG_DELAY = 0.1
"""Seconds from which on a connection carries more at a time: otherwise nothing would be at rest in time, and rightly so."""


@dataclass(frozen=True, slots=True)
class Step:
    """At *at* seconds *kind* happens to *who*; *values* are what `steps` of that kind takes."""

    at: float
    kind: str
    who: str
    values: dict[str, Any] = field(default_factory=dict)
    number: int = 0

    def __str__(self) -> str:
        values = " ".join(f"{name}={value}" for name, value in self.values.items() if name != "seed")
        return f"{self.kind} {self.who} {values}".rstrip()


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """One host with an agent."""

    name: str
    output: dict[str, Any]
    close_idle_seconds: float
    start: str
    max_open_files: int = 8192


@dataclass(frozen=True, slots=True)
class Plan:
    """One history. *shared*: the receivers append to one store over the network; otherwise each has its own."""

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
        return replace(self, agents=agents, steps=tuple(step for step in self.steps if step.who != name))

    def without_beats(self) -> "Plan":
        """Return the same without foreign writers."""
        return replace(self, beats=(), steps=tuple(step for step in self.steps if step.who not in self.beats))

    def at_once(self) -> "Plan":
        """Return the same on a network without delays."""
        return replace(self, delay=0.0, jitter=0.0)

    def save(self, path: Path) -> None:
        """Write it down, so that it stays the same history however plans are drawn in future."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    def recipe(self) -> str:
        """Return what `cooked` makes this plan of: the seed, and what is left of its history where something was cut away."""
        whole = draw(self.seed)
        if self == whole:
            return str(self.seed)
        steps = ",".join(str(step.number) for step in self.steps)
        marks = ["alone"] * (self.beats != whole.beats) + ["at_once"] * (self.delay != whole.delay)
        return ":".join([str(self.seed), "+".join(agent.name for agent in self.agents), steps, *marks])


def cooked(recipe: str) -> Plan:
    """Return the plan that *recipe* names, or that the file of this name holds. Raises ValueError, OSError."""
    if recipe.endswith(".json"):
        return msgspec.json.decode(Path(recipe).read_bytes(), type=Plan)
    seed, *kept = recipe.split(":")
    plan = draw(int(seed))
    if not kept:
        return plan
    agents, steps, *marks = kept
    for agent in plan.agents:
        if agent.name not in agents.split("+"):
            plan = plan.without_agent(agent.name)
    numbers = {int(number) for number in steps.split(",") if number}
    plan = plan.with_steps([step for step in plan.steps if step.number in numbers])
    plan = plan.without_beats() if "alone" in marks else plan
    return plan.at_once() if "at_once" in marks else plan


def draw(seed: int) -> Plan:
    """Return the history of *seed*."""
    pick = Random(f"plan {seed}")
    receivers = tuple(f"receiver{number}" for number in range(1, pick.choice((1, 1, 2, 2, 3)) + 1))
    balanced = len(receivers) > 1 and pick.random() < 0.6
    hosts = ["balancer:5044"] if balanced else [f"{name}:5044" for name in receivers]
    agents = tuple(_agent(pick, f"agent{number}", hosts) for number in range(1, pick.choice((1, 1, 1, 1, 2, 2, 3, 4, 5)) + 1))
    delay, jitter = pick.choice(((0.0, 0.0), (0.002, 0.005), (0.02, 0.05), (0.2, 0.3)))
    plan = Plan(
        seed=seed,
        agents=agents,
        receivers=receivers,
        beats=("beat1",) if pick.random() < 0.4 else (),
        shared=pick.random() < 0.4,
        balanced=balanced,
        delay=delay,
        jitter=jitter,
        capacity=pick.choice((2000 if delay < _LONG_DELAY else 64 * KIB, 64 * KIB, 256 * KIB)),
        sync_seconds=pick.choice((0.0, 0.004, 0.05)),
        log_file_bytes=pick.choice((4 * KIB, 16 * KIB, 256 * KIB)),
        receiver_bytes=pick.choice((128 * KIB, 8192 * KIB)),
        steps=(),
    )
    return plan.with_steps(_steps(plan, pick))


def _agent(pick: Random, name: str, hosts: list[str]) -> AgentPlan:
    output: dict[str, Any] = {
        "hosts": hosts,
        "windows_in_flight": pick.choice((1, 3, 8)),
        "window_bytes": WINDOW_BYTES,
        "compression": pick.choice(("zstd", "zlib", "none")),
        "records": "full" if pick.random() < 0.15 else "block",
    }
    start = "end" if pick.random() < 0.1 else "beginning"
    return AgentPlan(name, output, pick.choice((300.0, 2.0)), start, pick.choice((8192, 8192, 2)))


# Steps -----------------------------------------------------------------------------------------------------------------

Values = dict[str, Any]


def _write(pick: Random, plan: Plan) -> Values:
    lines = pick.choice((*(1, 3, 10, 40, 200) * 6, 2000))
    return {"file": pick.choice(APPLICATIONS), "lines": lines, "style": pick.choice(("plain", "plain", "plain", "odd"))}


def _file(pick: Random, plan: Plan) -> Values:
    return {"file": pick.choice(APPLICATIONS)}


def _rotate(pick: Random, plan: Plan) -> Values:
    return {"file": pick.choice(APPLICATIONS), "late": pick.choice((0, 0, 2))}


def _kill(pick: Random, plan: Plan) -> Values:
    return {"power": pick.random() < 0.4, "down": _down(pick)}


def _arm(pick: Random, plan: Plan) -> Values:
    who = pick.choice([pick.choice(plan.agents).name, pick.choice(plan.receivers), pick.choice(plan.stores), pick.choice(plan.stores)])
    rooms = [room for room, hosts in _rooms(plan).items() if who in hosts]
    passed = [point for point in faults.POINTS if not point.startswith("store.free.")]  # nothing is freed here
    point = pick.choice([point for point in passed if point.partition(".")[0] in rooms])
    power = pick.random() < 0.5
    then_off = pick.choice((0.0, 0.3, 2.0)) if not power else 0.0
    passages = pick.choice((1, 1, 2, 5))
    return {"whom": who, "point": point, "passages": passages, "power": power, "then_off": then_off, "down": _down(pick)}


def _rooms(plan: Plan) -> dict[str, list[str]]:
    """Return which hosts pass the fault points of which room."""
    return {"agent": [agent.name for agent in plan.agents], "receiver": list(plan.receivers), "store": list(plan.stores)}


def _stop(pick: Random, plan: Plan) -> Values:
    return {"down": _down(pick)}


def _forget(pick: Random, plan: Plan) -> Values:
    return {"down": _down(pick), "power": False}


def _cut(pick: Random, plan: Plan) -> Values:
    return {"how": pick.choice(("reset", "reset", "half_open", "half_close", "stall")), "seconds": pick.choice((0.1, 3.0, 40.0))}


def _part(pick: Random, plan: Plan) -> Values:
    return {"other": pick.choice(plan.receivers), "seconds": pick.choice((0.5, 5.0, 45.0))}


def _slow(pick: Random, plan: Plan) -> Values:
    return {"seconds": pick.choice((0.1, 1.0, 4.0)), "lasting": pick.choice((1.0, 10.0))}


def _disk(pick: Random, plan: Plan) -> Values:
    return {"error": pick.choice(("EIO", "ENOSPC")), "after": pick.choice((0, 1, 100, 5000)), "times": pick.choice((1, 1, 4))}


def _full(pick: Random, plan: Plan) -> Values:
    return {"room": pick.choice((0, 100, 20_000)), "seconds": pick.choice((0.5, 10.0))}


def _clock(pick: Random, plan: Plan) -> Values:
    return {"ms": pick.choice((-3_600_000, -5_000, 5_000, 86_400_000))}


def _nothing(pick: Random, plan: Plan) -> Values:
    return {}


def _down(pick: Random) -> float:
    return pick.choice((0.0, 0.2, 2.0, 8.0))


_Draw = Callable[[Random, Plan], Values]
_KINDS: dict[str, tuple[int, str, _Draw]] = {
    # kind: weight, who it happens to, how its values are drawn
    "write": (30, "agent", _write),
    "rotate": (4, "agent", _rotate),
    "truncate": (2, "agent", _file),
    "copytruncate": (1, "agent", _file),
    "compress": (1, "agent", _file),
    "remove": (2, "agent", _file),
    "unlink": (1, "agent", _rotate),
    "kill": (3, "process", _kill),
    "arm": (8, "process", _arm),
    "stop": (2, "process", _stop),
    "forget": (1, "agent", _forget),
    "cut": (5, "process", _cut),
    "part": (1, "agent", _part),
    "move": (2, "balancer", _nothing),
    "roll": (1, "receivers", _stop),
    "slow": (1, "store", _slow),
    "fail_write": (2, "store", _disk),
    "fail_sync": (1, "store", _nothing),
    "full": (1, "store", _full),
    "jump": (1, "process", _clock),
    "burst": (4, "beat", _write),
    "follow": (4, "reader", _nothing),
}


def _steps(plan: Plan, pick: Random) -> list[Step]:
    whom = {
        "agent": [agent.name for agent in plan.agents],
        "process": [*(agent.name for agent in plan.agents), *plan.receivers, *(("store",) if plan.shared else ())],
        "balancer": ["balancer"] if plan.balanced else [],
        "receivers": ["receivers"],
        "store": list(plan.stores),
        "beat": list(plan.beats),
        "reader": ["reader"],
    }
    kinds = [kind for kind, (_, whose, _) in _KINDS.items() if whom[whose]]
    weights = [_KINDS[kind][0] for kind in kinds]
    at, steps = 0.0, []
    for number in range(pick.randint(25, 70)):
        kind = pick.choices(kinds, weights)[0]
        _, whose, draw_values = _KINDS[kind]
        values = {**draw_values(pick, plan), "seed": pick.getrandbits(32)}
        who = values.pop("whom", None) or pick.choice(whom[whose])
        steps.append(Step(round(at, 3), kind, who, values, number))
        at += min(_LONGEST_PAUSE_SECONDS, pick.choice((0.0, 0.01, 0.1, 1.0)) * pick.expovariate(1.0))
    return steps
