"""Cuts a failing history down: fewer agents, fewer steps, the same broken promise."""

from collections.abc import Callable, Iterator

from tests.simulation.history import Outcome, play
from tests.simulation.plan import Plan

MOST_TRIES = 400  # default limit on the histories played


def shrink(
    outcome: Outcome,
    *,
    tries: int = MOST_TRIES,
    tried: Callable[[Outcome], None] = lambda best: None,
) -> Outcome:
    """Return the shortest history that breaks the same promise, after at most *tries* histories.

    *tried* is called after each history, with the best outcome so far.
    """
    assert outcome.broken is not None
    promise, best = outcome.broken.promise, outcome
    left = tries
    progress = True
    while progress and left > 0:
        progress = False
        for plan in _smaller(best.plan):
            left -= 1
            candidate = play(plan)
            if candidate.broken is not None and candidate.broken.promise == promise:
                best, progress = candidate, True
            tried(best)
            if progress or left <= 0:  # cut the better one next
                break
    return best


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield smaller plans, the boldest cuts first."""
    if len(plan.agents) > 1:
        for agent in plan.agents:
            yield plan.without_agent(agent.name)
    fewer = (
        plan.without_beats(),
        plan.without_liars(),
        plan.without_clients(),
        plan.without_writers(),
        plan.without_tickers(),
    )
    simpler = (
        *(plan.unscaled(), plan.kept_whole(), plan.roomy(), plan.ordinary()),
        *(plan.of_one_version(), plan.kept_packed()),
    )
    for smaller in (*fewer, *simpler):
        if smaller != plan:
            yield smaller
    size = len(plan.steps) // 2
    while size >= 1:
        for start in range(0, len(plan.steps), size):
            yield plan.with_steps([*plan.steps[:start], *plan.steps[start + size :]])
        size //= 2
    if plan.delay or plan.jitter:
        yield plan.at_once()
