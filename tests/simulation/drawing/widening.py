"""Draws scaled streams, retention, users of a table, other writers, and power cuts in commits.

They come from a generator of its own, so that the rest of a history is the same with and without
them.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from logdrive.host import faults
from logdrive.model.units import KIB
from tests.simulation.plan import LONG_PATIENCE_MS, Plan, Step

# fault points that a store passes while it frees log files
_FREEING = tuple(
    point
    for point in faults.POINTS
    if point.startswith(("store.free.", "store.index.", "store.roll."))
)
_WRITING = (
    *["store.commit.before_sync"] * 6,
    "store.commit.after_sync",
    "store.roll.before_create",
    "store.pages.before_sync",
    "store.pages.between_syncs",
)
"""Fault points with bytes on the disk that are written and not synced, or were just synced.

Virtual time does not pass there, so that no death at a random time hits them.
"""

_TIMED_SECONDS = 20.0, 40.0
"""Bounds of the length of a history with tickers: a few turns of the watermarks."""


def widened(plan: Plan) -> Plan:
    """Return *plan* with what its seed adds to it."""
    pick = Random(f"streams {plan.seed}")
    scaled, retained = pick.random() < 0.35, pick.random() < 0.4
    kept, files, slower = (
        pick.choice((1, 2000, 20_000)),
        pick.choice((2 * KIB, 4 * KIB, 16 * KIB)),
        pick.choice((1.0, 3.0, 6.0)),
    )

    if scaled:
        plan = replace(plan, scaled=True)
        plan = with_more(plan, pick, pick.randint(1, 6), _scale)
    if pick.random() < 0.25:
        plan = replace(
            plan,
            clients=tuple(f"client{number}" for number in range(1, pick.choice((1, 2, 3)) + 1)),
        )
        plan = with_more(plan, pick, pick.randint(3, 8), _count)
        plan = with_more(plan, pick, pick.randint(0, 3), _cut)
    if scaled and pick.random() < 0.4:
        plan = replace(
            plan,
            writers=tuple(f"writer{number}" for number in range(1, pick.choice((1, 1, 2)) + 1)),
        )
        plan = with_more(plan, pick, pick.randint(2, 6), _transact)
    if retained:
        # small log files, and more time: else retention would find little to free
        plan = replace(plan, kept_bytes=kept, log_file_bytes=files)
        plan = plan.with_steps(
            [replace(step, at=round(step.at * slower, 3)) for step in plan.steps]
        )
        plan = with_more(plan, pick, pick.randint(5, 15), _follow)
        plan = with_more(plan, pick, pick.randint(1, 4), _arm)
        plan = _aged(plan)

    torn = Random(f"torn {plan.seed}")
    plan = with_more(plan, torn, torn.choice((1, 2, 4, 6)), _tear)
    return _timed(plan) if scaled else plan


def _aged(plan: Plan) -> Plan:
    """Return *plan*; some histories get a limit on age, beside the one on size or instead."""
    pick = Random(f"age {plan.seed}")
    kept_ms, size_too = pick.choice((0, 0, 2_000, 8_000, 25_000, 8_000)), pick.random() < 0.3
    return replace(
        plan, kept_ms=kept_ms, kept_bytes=plan.kept_bytes if size_too or not kept_ms else 0
    )


def _timed(plan: Plan) -> Plan:
    """Return *plan*; one history in four gets two or three writers that note times.

    Its steps are spread out, since watermarks take their time.
    """
    pick = Random(f"times {plan.seed}")
    if pick.random() >= 0.25:
        return plan
    tickers = tuple(f"ticker{number}" for number in range(1, pick.choice((2, 2, 2, 3)) + 1))
    plan = replace(
        plan,
        tickers=tickers,
        patience_ms=pick.choice((LONG_PATIENCE_MS, LONG_PATIENCE_MS, LONG_PATIENCE_MS, 5_000, 0)),
    )
    end = max(step.at for step in plan.steps)
    slower = max(1.0, pick.uniform(*_TIMED_SECONDS) / max(end, 1.0))
    plan = plan.with_steps([replace(step, at=round(step.at * slower, 3)) for step in plan.steps])
    plan = with_more(plan, pick, pick.randint(3, 7), _tick)
    return with_more(plan, pick, pick.randint(0, 3), _cut_off)


def with_more(
    plan: Plan,
    pick: Random,
    count: int,
    draw: Callable[[Random, Plan], tuple[str, str, dict[str, Any]]],
) -> Plan:
    """Return *plan* with *count* more steps, at random times up to its last step."""
    end = max(step.at for step in plan.steps)
    first = len(plan.steps)
    more = []
    for number in range(first, first + count):
        kind, who, values = draw(pick, plan)
        more.append(
            Step(
                round(pick.uniform(0.0, end), 3),
                kind,
                who,
                {**values, "seed": pick.getrandbits(32)},
                number,
            )
        )
    return plan.with_steps(sorted((*plan.steps, *more), key=lambda step: step.at))


def _scale(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    return (
        "scale",
        pick.choice(plan.stores),
        {"how": pick.choice(("split", "split", "merge", "all"))},
    )


def _follow(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    return "follow", "reader", {}


def _count(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    return "count", pick.choice(plan.clients), {"times": pick.choice((1, 3, 10))}


def _transact(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    return "transact", pick.choice(plan.writers), {"times": pick.choice((1, 2, 5))}


def _tick(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    return "tick", pick.choice(plan.tickers), {"times": pick.choice((1, 2, 4))}


def _cut(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    how = pick.choice(("reset", "half_open", "half_close", "stall"))
    return "cut", pick.choice(plan.clients), {"how": how, "seconds": pick.choice((0.1, 3.0, 40.0))}


def _cut_off(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    """Cut the connections of a ticker."""
    how = pick.choice(("reset", "half_open", "half_close", "stall"))
    return "cut", pick.choice(plan.tickers), {"how": how, "seconds": pick.choice((0.1, 3.0))}


def _arm(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    power, down = pick.random() < 0.6, pick.choice((0.0, 0.2, 2.0))
    values = {
        "point": pick.choice(_FREEING),
        "passages": pick.choice((1, 1, 2, 5)),
        "power": power,
        "down": down,
    }
    return (
        "arm",
        pick.choice(plan.stores),
        {**values, "then_off": pick.choice((0.0, 0.3, 2.0)) if not power else 0.0},
    )


def _tear(pick: Random, plan: Plan) -> tuple[str, str, dict[str, Any]]:
    values = {"point": pick.choice(_WRITING), "passages": pick.choice((1, 1, 2, 3)), "power": True}
    return "arm", pick.choice(plan.stores), {**values, "down": pick.choice((0.0, 0.2, 2.0))}
