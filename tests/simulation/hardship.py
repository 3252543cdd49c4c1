"""Draws what makes a history harder: deaths between any two disk calls.

Each kind is drawn from a generator of its own, so that the rest of a history is the same with and
without it.
"""

from random import Random
from typing import Any

from tests.simulation.plan import Plan
from tests.simulation.widening import with_more

_CALLS = 3, 10, 10, 40, 200
"""A death comes after up to so many calls: some soon, in the middle of what has just begun."""


def hardened(plan: Plan) -> Plan:
    """Return *plan* with the hardships that its seed adds to it."""
    counting = Random(f"counting {plan.seed}")
    return with_more(plan, counting, counting.choice((1, 2, 2, 4)), _count_down)


def _count_down(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Kill a host that has something on its disk, and maybe once more while it begins anew."""
    of_agent = pick.random() < 0.4
    who = pick.choice([agent.name for agent in plan.agents] if of_agent else plan.stores)
    power = pick.random() < 0.6
    values = {
        "counts": [pick.randint(1, pick.choice(_CALLS)) for _ in range(pick.choice((1, 1, 1, 2, 3)))],
        "reads": pick.random() < (0.5 if of_agent else 0.2),
        "power": power,
        "down": pick.choice((0.0, 0.2, 2.0)),
        "then_off": pick.choice((0.0, 0.3, 2.0)) if not power else 0.0,
    }
    return "count_down", who, values
