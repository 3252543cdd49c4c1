"""Draws a whole history from its seed, before anything runs."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from logdrive.host import faults
from logdrive.model.units import KIB
from tests.simulation.drawing.copying import copied
from tests.simulation.drawing.file_histories import EVENT_SEEDS, FILE_SEEDS, of_files
from tests.simulation.drawing.hardship import hardened, meddled, raced
from tests.simulation.drawing.mixing import mixed
from tests.simulation.drawing.spreading import spread_out
from tests.simulation.drawing.widening import widened
from tests.simulation.hosts.applications import APPLICATIONS
from tests.simulation.plan import WINDOW_BYTES, AgentPlan, Plan, Step

DENSE_SEEDS: Final = 3 * FILE_SEEDS
"""The first of the seeds with everything, in which files have few lines and suffer much."""

_LONGEST_PAUSE_SECONDS = 6.0  # between two steps
_NARROW = 2000  # bytes that a narrow connection carries at a time
_MUCH = 8192 * KIB  # bytes of a receiver's memory that are never short
_LONG_DELAY = 0.1
"""Seconds of delay from which on no connection is narrow: a history could not come to rest."""


def draw(seed: int) -> Plan:
    """Return the history of *seed*."""
    pick = Random(f"plan {seed}")
    receivers = tuple(f"receiver{number}" for number in range(1, pick.choice((1, 1, 2, 2, 3)) + 1))
    balanced = len(receivers) > 1 and pick.random() < 0.6
    hosts = ["balancer:5044"] if balanced else [f"{name}:5044" for name in receivers]
    agents = tuple(
        _agent(pick, f"agent{number}", hosts)
        for number in range(1, pick.choice((1, 1, 1, 1, 2, 2, 3, 4, 5)) + 1)
    )
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
        capacity=pick.choice((_NARROW if delay < _LONG_DELAY else 64 * KIB, 64 * KIB, 256 * KIB)),
        sync_seconds=pick.choice((0.0, 0.004, 0.05)),
        log_file_bytes=pick.choice((4 * KIB, 16 * KIB, 256 * KIB)),
        receiver_bytes=pick.choice((128 * KIB, _MUCH)),
        steps=(),
    )
    # a window takes seconds: longer than a receiver whose memory is full waits for one
    if plan.delay and plan.capacity == _NARROW:
        plan = replace(plan, receiver_bytes=_MUCH)
    plan = replace(plan, direct=Random(f"direct {seed}").random() < 0.5)
    if seed >= EVENT_SEEDS:
        return copied(raced(meddled(of_files(plan), pick), pick))
    if FILE_SEEDS <= seed < DENSE_SEEDS:
        return copied(meddled(of_files(plan), pick))
    return copied(spread_out(mixed(hardened(widened(plan.with_steps(_steps(plan, pick)))))))


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


# Steps ------------------------------------------------------------------------------------------

Values = dict[str, Any]


def _write(pick: Random, plan: Plan) -> Values:
    few = plan.seed >= DENSE_SEEDS
    return {
        "file": pick.choice(APPLICATIONS),
        "lines": pick.choice((1, 1, 2, 10, 100) if few else (*(1, 3, 10, 40, 200) * 6, 2000)),
        "style": pick.choice(("plain", "plain", "plain", "odd")),
    }


def _file(pick: Random, plan: Plan) -> Values:
    return {"file": pick.choice(APPLICATIONS)}


def _rotate(pick: Random, plan: Plan) -> Values:
    return {"file": pick.choice(APPLICATIONS), "late": pick.choice((0, 0, 2))}


def _kill(pick: Random, plan: Plan) -> Values:
    return {"power": pick.random() < 0.4, "down": _down(pick)}


def _arm(pick: Random, plan: Plan) -> Values:
    who = pick.choice(
        [
            pick.choice(plan.agents).name,
            pick.choice(plan.receivers),
            pick.choice(plan.stores),
            pick.choice(plan.stores),
        ]
    )
    rooms = [room for room, hosts in _rooms(plan).items() if who in hosts]
    # `widening` draws the deaths while files are freed
    passed = [point for point in faults.POINTS if not point.startswith("store.free.")]
    point = pick.choice([point for point in passed if point.partition(".")[0] in rooms])
    power = pick.random() < 0.5
    then_off = pick.choice((0.0, 0.3, 2.0)) if not power else 0.0
    passages = pick.choice((1, 1, 2, 5))
    return {
        "whom": who,
        "point": point,
        "passages": passages,
        "power": power,
        "then_off": then_off,
        "down": _down(pick),
    }


def _rooms(plan: Plan) -> dict[str, list[str]]:
    """Return the hosts that pass the fault points of each room."""
    return {
        "agent": [agent.name for agent in plan.agents],
        "receiver": list(plan.receivers),
        "store": list(plan.stores),
    }


def _stop(pick: Random, plan: Plan) -> Values:
    return {"down": _down(pick)}


def _forget(pick: Random, plan: Plan) -> Values:
    return {"down": _down(pick), "power": False}


def _cut(pick: Random, plan: Plan) -> Values:
    return {
        "how": pick.choice(("reset", "reset", "half_open", "half_close", "stall")),
        "seconds": pick.choice((0.1, 3.0, 40.0)),
    }


def _part(pick: Random, plan: Plan) -> Values:
    return {"other": pick.choice(plan.receivers), "seconds": pick.choice((0.5, 5.0, 45.0))}


def _slow(pick: Random, plan: Plan) -> Values:
    return {"seconds": pick.choice((0.1, 1.0, 4.0)), "lasting": pick.choice((1.0, 10.0))}


def _disk(pick: Random, plan: Plan) -> Values:
    return {
        "error": pick.choice(("EIO", "ENOSPC")),
        "after": pick.choice((0, 1, 100, 5000)),
        "times": pick.choice((1, 1, 4)),
    }


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
_DENSE_WEIGHTS = {
    "rotate": 9,
    "truncate": 5,
    "copytruncate": 7,
    "compress": 6,
    "remove": 4,
    "unlink": 3,
    "kill": 6,
    "arm": 10,
    "stop": 6,
    "forget": 3,
    "part": 3,
    "roll": 2,
    "burst": 1,
    "follow": 2,
}
"""Weights from `DENSE_SEEDS` on, where they are others."""


def _steps(plan: Plan, pick: Random) -> list[Step]:
    whom = {
        "agent": [agent.name for agent in plan.agents],
        "process": [
            *(agent.name for agent in plan.agents),
            *plan.receivers,
            *(("store",) if plan.shared else ()),
        ],
        "balancer": ["balancer"] if plan.balanced else [],
        "receivers": ["receivers"],
        "store": list(plan.stores),
        "beat": list(plan.beats),
        "reader": ["reader"],
    }
    kinds = [kind for kind, (_, whose, _) in _KINDS.items() if whom[whose]]
    others = _DENSE_WEIGHTS if plan.seed >= DENSE_SEEDS else {}
    weights = [others.get(kind, _KINDS[kind][0]) for kind in kinds]
    at, steps = 0.0, []
    for number in range(pick.randint(25, 70)):
        kind = pick.choices(kinds, weights)[0]
        _, whose, draw_values = _KINDS[kind]
        values = {**draw_values(pick, plan), "seed": pick.getrandbits(32)}
        who = values.pop("whom", None) or pick.choice(whom[whose])
        steps.append(Step(round(at, 3), kind, who, values, number))
        at += min(
            _LONGEST_PAUSE_SECONDS, pick.choice((0.0, 0.01, 0.1, 1.0)) * pick.expovariate(1.0)
        )
    return steps
