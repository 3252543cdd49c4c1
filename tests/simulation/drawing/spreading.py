"""Draws agents with connections to several receivers, connections that grow old, and reloads.

They come from a generator of their own, so that the rest of a history is the same with and without
them.
"""

from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.drawing.widening import with_more
from tests.simulation.hosts.applications import APPLICATIONS
from tests.simulation.plan import AgentPlan, Plan


def spread_out(plan: Plan) -> Plan:
    """Return *plan* with what its seed adds to it."""
    agents = tuple(_connected(agent, plan) for agent in plan.agents)
    pick = Random(f"reloads {plan.seed}")
    plan = replace(plan, agents=agents)
    return with_more(plan, pick, pick.choice((0, 0, 1, 3)), _reload)


def _connected(agent: AgentPlan, plan: Plan) -> AgentPlan:
    """Return *agent*; many of those with several receivers send to all of them at once."""
    pick = Random(f"connections {agent.name} {plan.seed}")
    output = dict(agent.output)
    if len(plan.receivers) > 1 and pick.random() < 0.4:
        output |= {"hosts": [f"{name}:5044" for name in plan.receivers], "mode": "balance"}
    if pick.random() < 0.25:
        output["max_connection_seconds"] = pick.choice((8.0, 20.0))
    return replace(agent, output=output)


def _reload(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    what = pick.choice(("nothing", "labels", "mode", "windows", "file", "file"))
    values = {
        "what": what,
        "file": pick.choice(APPLICATIONS),
        "seconds": pick.choice((0.0, 0.5, 7.0)),
    }
    return "reload", pick.choice(plan.agents).name, values
