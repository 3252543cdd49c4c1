"""Draws copies of files: what copytruncate leaves, and rotated files that are compressed.

Each step is drawn from a generator of its own, so that the rest of a history is the same with and
without it.
"""

from dataclasses import replace
from random import Random

from tests.simulation.hosts.compressing import SUFFIXES
from tests.simulation.plan import Plan, Step


def copied(plan: Plan) -> Plan:
    """Return *plan* with names that inputs match for most copies and compressed files."""
    return plan.with_steps([_copied(step, plan.seed) for step in plan.steps])


def _copied(step: Step, seed: int) -> Step:
    pick = Random(f"copies {seed} {step.number}")
    kind = step.kind
    if kind == "truncate" and pick.random() < 0.5:
        kind = "copytruncate"
    if kind == "remove" and pick.random() < 0.5:
        kind = "compress"
    if kind == "copytruncate" and pick.random() < 0.8:
        name = f"{step.values['file']}.log.{step.number}"
        return replace(step, kind=kind, values={**step.values, "to": f"{name}.copy"})
    if kind == "compress":
        how = pick.choice((*SUFFIXES, ""))
        return replace(step, kind=kind, values={**step.values, "how": how})
    return replace(step, kind=kind)
