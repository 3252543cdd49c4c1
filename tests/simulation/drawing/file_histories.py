"""Draws histories of files: one or two hosts whose applications do to their files whatever can be
done, while agents die at any fault point and lose their checkpoints.

Each byte must be in exactly one event or gap. `FILE_SEEDS` and the seeds that follow are theirs;
from `DENSE_FILE_SEEDS` on agents start more often, and a file has a line or two when it is copied:

    python -m tests.simulation run --first 1000000000000000 --seeds 5000
    python -m tests.simulation run --first 2000000000000000 --seeds 5000
    python -m tests.simulation run --first 4000000000000000 --seeds 5000
"""

from dataclasses import replace
from random import Random
from typing import Any, Final, NamedTuple

from logdrive.host import faults
from tests.simulation.hosts.applications import APPLICATIONS
from tests.simulation.plan import AgentPlan, Plan, Step

FILE_SEEDS: Final = 10**15
"""The first of the seeds that are histories of files."""
DENSE_FILE_SEEDS: Final = 2 * FILE_SEEDS
"""The first of those in which much happens to few lines."""
EVENT_SEEDS: Final = 4 * FILE_SEEDS
"""The first of those, dense too, whose agents join lines, leave some out, or give them fields, and
whose operators skip lines, or have them sent again.
"""


class _Mix(NamedTuple):
    """What histories are made of."""

    weights: dict[str, int]
    """How often each kind of step comes."""
    steps: tuple[int, int]
    """The least and the most of them."""
    lines: tuple[int, ...]
    """What a step writes."""


_WEIGHTS: Final = {
    "write": 40,
    "rotate": 5,
    "shift": 3,
    "archive": 2,
    "unlink": 3,
    "truncate": 4,
    "copytruncate": 4,
    "compress": 3,
    "remove": 3,
    "set_aside": 4,
    "trim": 2,
    "kill": 3,
    "arm": 6,
    "stop": 2,
    "forget": 2,
    "cut": 2,
}
_WIDE: Final = _Mix(_WEIGHTS, (40, 120), (1, 3, 10, 40, 200))
_DENSE: Final = _Mix(
    {
        **_WEIGHTS,
        "write": 30,
        "rotate": 6,
        "shift": 4,
        "truncate": 6,
        "copytruncate": 9,
        "compress": 7,
        "remove": 4,
        "kill": 8,
        "arm": 8,
        "stop": 8,
        "forget": 5,
        "part": 5,
    },
    (12, 60),
    (1, 1, 2, 10, 100),
)
_EVENTS: Final = _DENSE._replace(weights={**_DENSE.weights, "ask": 8})
_POINTS: Final = tuple(point for point in faults.POINTS if point.startswith("agent."))


def of_files(plan: Plan) -> Plan:
    """Return a history of files on the hosts of *plan*: its agents, and one receiver."""
    mix = _WIDE
    if plan.seed >= DENSE_FILE_SEEDS:
        mix = _EVENTS if plan.seed >= EVENT_SEEDS else _DENSE
    pick = Random(f"files {plan.seed}")
    receivers = plan.receivers[:1]
    agents = tuple(
        replace(
            agent,
            output={**agent.output, "hosts": [f"{receivers[0]}:5044"]},
            start="beginning",
            handles=0,
            keep_removed_bytes=0,
        )
        for agent in plan.agents[: pick.choice((1, 1, 2))]
    )
    if plan.seed >= EVENT_SEEDS:
        agents = tuple(_in_events(agent, pick) for agent in agents)
    steps, at = list[Step](), 0.0
    for number in range(pick.randint(*mix.steps)):
        kind = pick.choices(list(mix.weights), list(mix.weights.values()))[0]
        values = {**_values(kind, mix, receivers[0], pick), "seed": pick.getrandbits(32)}
        steps.append(Step(round(at, 3), kind, pick.choice(agents).name, values, number))
        at += pick.choice((0.0, 0.01, 0.1, 1.0, 4.0)) * pick.random()
    return Plan(
        seed=plan.seed,
        agents=agents,
        receivers=receivers,
        beats=(),
        shared=False,
        balanced=False,
        delay=plan.delay,
        jitter=plan.jitter,
        capacity=plan.capacity,
        sync_seconds=plan.sync_seconds,
        log_file_bytes=plan.log_file_bytes,
        steps=tuple(steps),
    )


def _in_events(agent: AgentPlan, pick: Random) -> AgentPlan:
    """Return *agent* with events that are not just lines of its files; most are sent in packs."""
    processors = pick.choice(((), ("exclude",), ("exclude",), ("add",), ("exclude", "add")))
    # a full record does not say what was left out before it, but for its place
    forms = ("packed", "packed", "packed", "block", "block" if processors else "full")
    return replace(
        agent,
        output={**agent.output, "records": pick.choice(forms)},
        several_lines=pick.random() < 0.4,
        longest=pick.choice((0, 0, 60)),
        encoding=pick.choice(("utf-8", "utf-8", "latin-1")),
        processors=processors,
    )


def _values(kind: str, mix: _Mix, receiver: str, pick: Random) -> dict[str, Any]:
    """Return the values of a step of this *kind*."""
    down = pick.choice((0.0, 0.2, 2.0, 8.0))
    if kind in ("kill", "forget"):
        return {"power": kind == "kill" and pick.random() < 0.3, "down": down}
    if kind == "stop":
        return {"down": down}
    if kind == "arm":
        return {
            "point": pick.choice(_POINTS),
            "passages": pick.choice((1, 1, 2, 5)),
            "power": pick.random() < 0.3,
            "down": down,
            "then_off": 0.0,
        }
    if kind == "cut":
        return {"how": pick.choice(("reset", "half_open", "stall")), "seconds": 3.0}
    if kind == "ask":
        return {"what": pick.choice(("skip", "skip", "resend"))}
    if kind == "part":
        return {"other": receiver, "seconds": pick.choice((3.0, 20.0, 45.0))}

    values: dict[str, Any] = {"file": pick.choice(APPLICATIONS)}
    if kind == "write":
        values["lines"] = pick.choice(mix.lines)
        values["style"] = pick.choice(("plain", "plain", "odd"))
    elif kind in ("rotate", "unlink"):
        values["late"] = pick.choice((0, 0, 2))
    elif kind == "set_aside":
        values["size"] = pick.choice((1, 100, 5000, 70_000))
    return values
