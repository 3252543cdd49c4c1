"""Draws the forms of records, and which versions of the programs take part.

Each is drawn from a generator of its own, so that the rest of a history is the same with and
without it.
"""

from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.files import APPLICATIONS
from tests.simulation.plan import AgentPlan, Plan, Step, Unpack
from tests.simulation.widening import with_more


def mixed(plan: Plan) -> Plan:
    """Return *plan* with forms of records, and versions of programs, that its seed adds to it."""
    plan = replace(plan, agents=tuple(_formed(agent, plan.seed) for agent in plan.agents))
    return _versioned(_opening(_with_liars(plan)))


def _formed(agent: AgentPlan, seed: int) -> AgentPlan:
    """Return *agent*; most of those that would send blocks send packs."""
    pick = Random(f"form {agent.name} {seed}")
    if agent.output["records"] != "block" or pick.random() < 0.15:
        return agent
    return replace(agent, output={**agent.output, "records": "packed"})


def _opening(plan: Plan) -> Plan:
    """Return *plan*; in one history of six some receivers open packs before they store them.

    So they do in half of those with liars, whose packs they can't open.
    """
    pick = Random(f"unpack {plan.seed}")
    if pick.random() >= (1 / 2 if plan.liars else 1 / 6):
        return plan
    ways: tuple[Unpack, ...] = ("blocks", "full")
    opening = {name: pick.choice(ways) for name in plan.receivers}
    some = {name: how for name, how in opening.items() if pick.random() < 0.7}
    return replace(plan, unpack=some)


def _with_liars(plan: Plan) -> Plan:
    """Return *plan*; in one history of six there are peers that send packs whose inside lies."""
    pick = Random(f"liars {plan.seed}")
    if pick.random() >= 1 / 6:
        return plan
    plan = replace(
        plan, liars=tuple(f"liar{number}" for number in range(1, pick.choice((1, 1, 2)) + 1))
    )
    return with_more(plan, pick, pick.choice((1, 2, 4)), _lie)


def _lie(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    return "lie", pick.choice(plan.liars), {"runs": pick.choice((1, 3, 6))}


def _versioned(plan: Plan) -> Plan:
    """Return *plan*; in one history of three some programs are of the version before packs.

    They are upgraded and downgraded while things happen. In some of these histories there is no
    TLS, so that an agent finds out by what happens whether it is understood.
    """
    pick = Random(f"versions {plan.seed}")
    if pick.random() >= 1 / 3:
        return plan
    names = _versions(plan)
    old = tuple(name for name in names if pick.random() < 0.5)
    plan = replace(plan, old=old, tls=pick.random() < 0.7)
    plan = with_more(plan, pick, pick.choice((0, 1, 2, 4)), _install)
    return plan if plan.liars else _undercut(plan, pick)


def _install(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Install another version of a program, or the same one again."""
    who = pick.choice(_versions(plan))
    values = {
        "old": pick.random() < 0.5,
        "killed": pick.random() < 0.3,
        "down": pick.choice((0.0, 0.2, 2.0)),
    }
    return "install", who, values


def _undercut(plan: Plan, pick: Random) -> Plan:
    """Return *plan*; up to three times, what is unacknowledged has to change its form.

    A receiver dies before it stores a run, another version is started in its place, and the run's
    file is gone by then.
    """
    steps, end = list(plan.steps), max(step.at for step in plan.steps)
    for _ in range(pick.choice((0, 0, 1, 3))):
        at, down = pick.uniform(0.0, end), pick.choice((2.0, 5.0))
        agent, receiver = pick.choice(plan.agents).name, pick.choice(plan.receivers)
        file = {"file": pick.choice(APPLICATIONS)}
        dies = {"point": "receiver.window.before_append", "passages": 1, "power": False}
        again = {"old": pick.random() < 0.7, "killed": True, "down": down}
        gone = pick.choice(("truncate", "truncate", "copytruncate", "unlink"))
        late = {"late": 0} if gone == "unlink" else {}
        for after, kind, who, values in (
            (0.0, "arm", receiver, {**dies, "down": down}),
            (0.0, "write", agent, {**file, "lines": pick.choice((1, 40)), "style": "odd"}),
            (pick.choice((0.3, 1.0)), gone, agent, {**file, **late}),
            (1.0, "install", receiver, again),
        ):
            values["seed"] = pick.getrandbits(32)
            steps.append(Step(round(at + after, 3), kind, who, values, len(steps)))
    return plan.with_steps(sorted(steps, key=lambda step: step.at))


def _versions(plan: Plan) -> list[str]:
    """Return the hosts that may be of either version: liars need receivers that take packs."""
    agents = [agent.name for agent in plan.agents]
    return agents if plan.liars else [*agents, *plan.receivers]
