"""Draws the forms of records, and which versions of the programs take part.

Each is drawn from a generator of its own, so that the rest of a history is the same with and
without it.
"""

from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.drawing.widening import with_more
from tests.simulation.hosts.applications import APPLICATIONS
from tests.simulation.plan import AgentPlan, Plan, Step, Unpack

_QUIET_SECONDS = 20.0  # until all that came before has passed, as far as it passes by itself
_DOWN_SECONDS = 8.0  # of a receiver whose version is replaced


def mixed(plan: Plan) -> Plan:
    """Return *plan* with forms of records, and versions of programs, that its seed adds to it."""
    plan = replace(plan, agents=tuple(_formed(agent, plan.seed) for agent in plan.agents))
    return _in_several_lines(_versioned(_opening(_with_liars(plan))))


def _formed(agent: AgentPlan, seed: int) -> AgentPlan:
    """Return *agent*; most of those that would send blocks send packs."""
    pick = Random(f"form {agent.name} {seed}")
    if agent.output["records"] != "block" or pick.random() < 0.15:
        return agent
    return replace(agent, output={**agent.output, "records": "packed"})


def _in_several_lines(plan: Plan) -> Plan:
    """Return *plan*; one agent of six, of this version, joins lines into events."""
    return replace(
        plan,
        agents=tuple(
            replace(agent, several_lines=True)
            if agent.name not in plan.old
            and Random(f"lines {agent.name} {plan.seed}").random() < 1 / 6
            else agent
            for agent in plan.agents
        ),
    )


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
    """Return *plan*; at its end, up to two times, what is unacknowledged has to change its form.

    A receiver dies before it stores a run, another version is started in its place, and the run's
    file is gone by then. Other faults would come between, so these steps follow all others.
    """
    steps, at = list(plan.steps), max(step.at for step in plan.steps) + _QUIET_SECONDS
    for _ in range(pick.choice((0, 1, 1, 2))):
        for after, kind, who, values in _deeds(plan, pick):
            seeded = {**values, "seed": pick.getrandbits(32)}
            steps.append(Step(round(at + after, 3), kind, who, seeded, len(steps)))
        at = steps[-1].at + _QUIET_SECONDS
    return plan.with_steps(steps)


def _deeds(plan: Plan, pick: Random) -> list[tuple[float, str, str, dict[str, Any]]]:
    """Return the steps of one such replacement: seconds since its beginning, kind, who, values."""
    agent, hosts = pick.choice(plan.agents).name, plan.receivers
    file = {"file": pick.choice(APPLICATIONS)}
    wrote = {**file, "lines": pick.choice((3, 40)), "style": "odd"}
    begin, end = pick.choice(((False, True), (False, True), (True, False)))
    first = {"old": begin, "killed": False, "down": 0.0}
    dies = {"point": "receiver.window.before_append", "passages": 1, "power": False}
    last = {"old": end, "killed": True, "down": _DOWN_SECONDS}
    return [
        *((0.0, "install", who, first) for who in hosts),
        (2.0, "install", agent, {**first, "old": False}),
        (8.0, "write", agent, wrote),
        *((18.0, "arm", who, {**dies, "down": _DOWN_SECONDS}) for who in hosts),
        (18.0, "write", agent, wrote),
        (pick.choice((19.0, 20.5)), pick.choice(("truncate", "copytruncate")), agent, file),
        *((22.0, "install", who, last) for who in hosts),
    ]


def _versions(plan: Plan) -> list[str]:
    """Return the hosts that may be of either version: liars need receivers that take packs."""
    agents = [agent.name for agent in plan.agents]
    return agents if plan.liars else [*agents, *plan.receivers]
