"""Draws the forms of records, and which versions of the programs take part.

Each is drawn from a generator of its own, so that the rest of a history is the same with and
without it.
"""

from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.plan import AgentPlan, Plan
from tests.simulation.widening import with_more


def mixed(plan: Plan) -> Plan:
    """Return *plan* with forms of records, and versions of programs, that its seed adds to it."""
    plan = replace(plan, agents=tuple(_formed(agent, plan.seed) for agent in plan.agents))
    return _versioned(_opening(plan))


def _formed(agent: AgentPlan, seed: int) -> AgentPlan:
    """Return *agent*; most of those that would send blocks send packs."""
    pick = Random(f"form {agent.name} {seed}")
    if agent.output["records"] != "block" or pick.random() < 0.15:
        return agent
    return replace(agent, output={**agent.output, "records": "packed"})


def _opening(plan: Plan) -> Plan:
    """Return *plan*; in one history of six some receivers open packs before they store them."""
    pick = Random(f"unpack {plan.seed}")
    if pick.random() >= 1 / 6:
        return plan
    opening = {name: pick.choice(("blocks", "full")) for name in plan.receivers}
    some = {name: how for name, how in opening.items() if pick.random() < 0.7}
    return replace(plan, unpack=some)


def _versioned(plan: Plan) -> Plan:
    """Return *plan*; in one history of three some programs are of the version before packs.

    They are upgraded and downgraded while things happen. In some of these histories there is no
    TLS, so that an agent finds out by what happens whether it is understood.
    """
    pick = Random(f"versions {plan.seed}")
    if pick.random() >= 1 / 3:
        return plan
    names = [*(agent.name for agent in plan.agents), *plan.receivers]
    old = tuple(name for name in names if pick.random() < 0.5)
    plan = replace(plan, old=old, tls=pick.random() < 0.7)
    return with_more(plan, pick, pick.choice((0, 1, 2, 4)), _install)


def _install(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Install another version of a program, or the same one again."""
    who = pick.choice([*(agent.name for agent in plan.agents), *plan.receivers])
    values = {
        "old": pick.random() < 0.5,
        "killed": pick.random() < 0.3,
        "down": pick.choice((0.0, 0.2, 2.0)),
    }
    return "install", who, values
