"""A history in one line: its seed, and which of the parts drawn from it are left."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.simulation.drawing.history import draw
from tests.simulation.plan import Plan

_MARKS: dict[str, Callable[[Plan], Plan]] = {
    "alone": Plan.without_beats,
    "truthful": Plan.without_liars,
    "untabled": Plan.without_clients,
    "unwritten": Plan.without_writers,
    "unticked": Plan.without_tickers,
    "unscaled": Plan.unscaled,
    "kept": Plan.kept_whole,
    "roomy": Plan.roomy,
    "ordinary": Plan.ordinary,
    "one_version": Plan.of_one_version,
    "kept_packed": Plan.kept_packed,
    "at_once": Plan.at_once,
    "over_s2": Plan.over_s2,
    "over_iggy": Plan.over_iggy,
    "over_faulty_iggy": Plan.over_faulty_iggy,
}
"""Names of the cuts besides agents and steps, in the order in which they are written."""


def recipe_of(plan: Plan) -> str:
    """Return the recipe of which `cooked` makes *plan*.

    That is the seed, with the agents, steps and cuts that are left if something was cut away.
    """
    whole = draw(plan.seed)
    if plan == whole:
        return str(plan.seed)
    steps = ",".join(str(step.number) for step in plan.steps)
    marks = [
        mark
        for mark, smaller in _MARKS.items()
        if smaller(whole) != whole and smaller(plan) == plan
    ]
    return ":".join([str(plan.seed), "+".join(agent.name for agent in plan.agents), steps, *marks])


def cooked(recipe: str) -> Plan:
    """Return the plan of *recipe*, or the one in the `.json` file of that name.

    Raises ValueError, OSError.
    """
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
    for mark in marks:
        plan = _MARKS[mark](plan)
    return plan
