"""Draws hardships: deaths and file changes between two disk calls, black holes, small limits.

Each kind is drawn from a generator of its own, so that the rest of a history is the same with and
without it.
"""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from logdrive.model.units import KIB
from tests.simulation.drawing.widening import with_more
from tests.simulation.hosts.applications import APPLICATIONS, CHAIN
from tests.simulation.peers.odd_beats import ODD
from tests.simulation.plan import AgentPlan, Plan

_BEGIN = (
    "",
    "",
    "",
    "create log-",
    "create log-",
    "create log-",
    "create",
    "replace",
    "remove",
    "truncate",
)
"""Disk calls from which those before a death are counted; the later ones are rare."""
_LOOKS = "", "", "names", "stat", "open", "fstat", "pread"
"""Disk calls of an agent from which those before a file change are counted."""
_SOURCE_BYTES = 2300
"""Bytes of a receiver's memory that a source takes, about; a connection has half of all at most."""
_SHORT_SECONDS = 200.0  # length of a history in which sources may be refused
_ANSWERS_BYTES = 8 * KIB
"""Bytes, more than the positions of all sources that an agent may ask for at once."""
_CALLS = 3, 10, 10, 40, 200
"""Limits on the calls before a death: small ones hit the middle of what has just begun."""


def hardened(plan: Plan) -> Plan:
    """Return *plan* with the hardships that its seed adds to it."""
    counting = Random(f"counting {plan.seed}")
    plan = with_more(plan, counting, counting.choice((1, 2, 2, 4)), _count_down)
    meddling = Random(f"meddling {plan.seed}")
    plan = with_more(plan, meddling, meddling.choice((0, 3, 6, 12)), _within)
    plan = with_more(plan, meddling, meddling.choice((0, 0, 2, 5)), _shift)
    plan = _narrowed(plan)
    archiving = Random(f"archiving {plan.seed}")
    plan = with_more(plan, archiving, archiving.choice((0, 0, 1, 3)), _archive)
    holes = Random(f"holes {plan.seed}")
    plan = with_more(plan, holes, holes.choice((0, 0, 1, 2)), _hole)
    reading = Random(f"reading {plan.seed}")
    plan = with_more(plan, reading, reading.choice((0, 1, 2, 4)), _fail_read)
    return _rationed(_rotten(_with_strangers(plan)))


def meddled(plan: Plan, pick: Random) -> Plan:
    """Return *plan* with deaths, and changes of files, between two disk calls."""
    plan = with_more(plan, pick, pick.choice((0, 1, 2, 4)), _count_down)
    return with_more(plan, pick, pick.choice((0, 3, 6, 12)), _within)


def raced(plan: Plan, pick: Random) -> Plan:
    """Return *plan* with files that go, and come again, between two calls on just that file."""
    return with_more(plan, pick, pick.choice((0, 2, 4, 8)), _race)


def _rotten(plan: Plan) -> Plan:
    """Return *plan* with bits that flip in files that a store can do without, or with a restore.

    A store restored from a backup may lack what was acknowledged. So such a history has only agents
    that keep positions, and foreign peers: an agent in the plain dialect does not learn that its
    lines are lost.
    """
    pick = Random(f"rot {plan.seed}")
    alone = not (plan.clients or plan.writers or plan.tickers or plan.scaled or plan.retained)
    alone = alone and not any(agent.plain for agent in plan.agents)
    if alone and len(plan.stores) == 1 and pick.random() < 0.7:
        return with_more(with_more(plan, pick, 2, _back_up), pick, pick.choice((1, 2)), _restore)
    return with_more(plan, pick, pick.choice((0, 0, 1)), _rot)


def _back_up(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    return "back_up", plan.stores[0], {}


def _restore(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Restore the backup made last, if there is one by then."""
    return "restore", plan.stores[0], {"down": pick.choice((0.0, 2.0, 8.0))}


def _rot(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Flip one bit of an index, or of one copy of its pages."""
    return "rot", pick.choice(plan.stores), {"file": pick.choice(("/store/index", "/store/*.a"))}


def _with_strangers(plan: Plan) -> Plan:
    """Return *plan*; some histories get odd foreign peers, and agents in the plain dialect."""
    pick = Random(f"strangers {plan.seed}")
    if pick.random() < 0.3:
        odd = tuple(
            f"{kind}{number}"
            for number, kind in enumerate(pick.sample(list(ODD), pick.choice((1, 1, 2))), 1)
        )
        plan = replace(plan, beats=(*plan.beats, *odd))
        for beat in odd:
            plan = with_more(plan, pick, pick.choice((1, 2, 4)), partial(_burst, beat))
    plain = [agent.name for agent in plan.agents if pick.random() < 0.1]
    return replace(
        plan, agents=tuple(_plain(agent) if agent.name in plain else agent for agent in plan.agents)
    )


def _plain(agent: AgentPlan) -> AgentPlan:
    return replace(agent, output={**agent.output, "dialect": "lumberjack/2"})


def _burst(who: str, pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    return "burst", who, {"lines": pick.choice((1, 10, 40, 200))}


def _narrowed(plan: Plan) -> Plan:
    """Return *plan*; some histories get limits so small that they are reached."""
    pick = Random(f"limits {plan.seed}")
    agents = tuple(
        replace(
            agent,
            handles=pick.choice((0, 0, 0, 6, 8, 16)),
            keep_removed_bytes=pick.choice((0, 0, 0, 0, 500, 20_000)),
            inodes_reused=pick.random() < 0.5,
            births_told=pick.random() < 0.8,
            devices_renumbered=pick.random() < 0.3,
        )
        for agent in plan.agents
    )
    return replace(plan, agents=agents, pending_bytes=pick.choice((0, 4 * KIB, 32 * KIB, 0)))


def _rationed(plan: Plan) -> Plan:
    """Return *plan*; some histories get receivers with room for few sources, or few answers.

    A refused source waits longer each time, so none is refused in a long history. An agent may ask
    for all lives of a file at once, as for those of a copy, so there is room for the answers.
    """
    pick = Random(f"rations {plan.seed}")
    sources = pick.choice((0, 0, 1, 2, 4)) * 2 * _SOURCE_BYTES
    outbox = pick.choice((0, 0, _ANSWERS_BYTES, _ANSWERS_BYTES))
    end = max(step.at + float(step.values.get("seconds", 0.0)) for step in plan.steps)
    return replace(plan, sources_bytes=sources if end < _SHORT_SECONDS else 0, outbox_bytes=outbox)


def _count_down(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Kill an agent or a store after some disk calls, perhaps again while it starts."""
    of_agent = pick.random() < 0.4
    who = pick.choice([agent.name for agent in plan.agents] if of_agent else plan.stores)
    power = pick.random() < 0.6
    begin = pick.choice(_BEGIN if not of_agent else ("", "", "create"))
    values = {
        "counts": [
            pick.randint(1, pick.choice(_CALLS) if not begin else 4)
            for _ in range(pick.choice((1, 1, 1, 2, 3)))
        ],
        "begin": begin,
        "reads": pick.random() < (0.5 if of_agent else 0.2),
        "power": power,
        "down": pick.choice((0.0, 0.2, 2.0)),
        "then_off": pick.choice((0.0, 0.3, 2.0)) if not power else 0.0,
    }
    return "count_down", who, values


def _fail_read(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Let calls that read an agent's files, or a store's, fail for a while."""
    of_agent = pick.random() < 0.7
    who = pick.choice([agent.name for agent in plan.agents] if of_agent else plan.stores)
    calls = pick.choice(
        (
            [],
            ["stat"],
            ["open"],
            ["pread"],
            ["fstat"],
            ["names"],
            ["stat", "open"],
            ["pread", "fstat"],
        )
    )
    error = pick.choice(("EIO", "EACCES", "ESTALE")) if of_agent else "EIO"
    return (
        "fail_read",
        who,
        {"error": error, "calls": calls, "times": pick.choice((1, 1, 2, 5, 30, 300))},
    )


def _hole(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Let bytes between two hosts vanish, in one direction or both, beyond every time limit."""
    pairs = [(agent.name, receiver) for agent in plan.agents for receiver in plan.receivers]
    pairs += [(beat, receiver) for beat in plan.beats for receiver in plan.receivers]
    if plan.shared:
        pairs += (
            [(receiver, store) for receiver in plan.receivers for store in plan.stores]
            * 2
            * len(plan.agents)
        )
    pairs += [(name, plan.stores[0]) for name in (*plan.clients, *plan.writers)]
    who, other = pick.choice(pairs)
    to = pick.choice(([who, other], [who, other], [who], [other]))
    seconds = pick.choice((120.0, 120.0, 120.0, 400.0))
    return "hole", who, {"other": other, "to": to, "seconds": seconds, "reset": pick.random() < 0.5}


Deeds = list[list[Any]]
"""Changes of files: disk calls since the one before, kind, values. Lists, as in saved histories."""


def _within(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Let applications change files, or rotate as logrotate does, between calls of an agent."""
    file = pick.choice(APPLICATIONS)
    does = _chain(pick, file) if pick.random() < 0.3 else _deeds(pick, file)
    return "within", pick.choice(plan.agents).name, {"begin": pick.choice(_LOOKS), "does": does}


def _race(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Let a file go while its agent asks for it, and be written again a few calls later."""
    file = pick.choice(APPLICATIONS)
    kind = pick.choice(("truncate", "truncate", "copytruncate", "rotate", "shift", "unlink"))
    late = {"late": 0} if kind in ("rotate", "unlink") else {}
    does: Deeds = [
        [pick.choice((0, 0, 1, 2, 3)), kind, {"file": file, **late, "seed": pick.getrandbits(32)}],
        [pick.choice((0, 0, 0, 1, 2)), "write", _lines(pick, file)],
    ]
    begin = f"{pick.choice(('stat', 'open', 'fstat', 'pread'))} {file}.log"
    return "within", pick.choice(plan.agents).name, {"begin": begin, "does": does}


def _shift(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Rotate as logrotate does, at once."""
    return "shift", pick.choice(plan.agents).name, {"file": pick.choice(APPLICATIONS)}


def _archive(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Move a file to another watched directory, at once or between two calls of its agent."""
    who, file = pick.choice(plan.agents).name, pick.choice(APPLICATIONS)
    if pick.random() < 0.5:
        return "archive", who, {"file": file}
    values = {"file": file, "seed": 0}
    return (
        "within",
        who,
        {"begin": pick.choice(_LOOKS), "does": [[pick.choice((0, 1, 2, 5)), "archive", values]]},
    )


def _chain(pick: Random, file: str) -> Deeds:
    does: Deeds = []
    for depth in range(CHAIN, -1, -1):
        does.append(
            [
                pick.choice((0, 0, 1, 1, 2, 5)),
                "shift_one",
                {"file": file, "depth": depth, "seed": 0},
            ]
        )
    if pick.random() < 0.7:
        does.append([pick.choice((0, 1, 2)), "write", _lines(pick, file)])
    return does


def _deeds(pick: Random, file: str) -> Deeds:
    does: Deeds = []
    for _ in range(pick.choice((1, 1, 2, 3))):
        kind = pick.choices(list(_DEEDS), list(_DEEDS.values()))[0]
        late = {"late": pick.choice((0, 0, 2))} if kind in ("rotate", "unlink") else {}
        values = (
            _lines(pick, file)
            if kind == "write"
            else {"file": file, **late, "seed": pick.getrandbits(32)}
        )
        does.append([pick.choice((0, 0, 1, 1, 2, 4, 20)), kind, values])
    return does


_DEEDS = {
    "write": 8,
    "rotate": 2,
    "shift": 2,
    "truncate": 3,
    "copytruncate": 1,
    "remove": 2,
    "unlink": 2,
}
"""Weights of the changes that applications make between two calls."""


def _lines(pick: Random, file: str) -> dict[str, Any]:
    lines, style = pick.choice((1, 3, 10, 40)), pick.choice(("plain", "plain", "odd"))
    return {"file": file, "lines": lines, "style": style, "seed": pick.getrandbits(32)}
