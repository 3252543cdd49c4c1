"""Histories: fixed seeds, those that once found a fault; and that they repeat.

Fresh seeds, which nobody has tried, say nothing of the change that meets them: `make simulate
ARGS=--fresh` plays those.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.drawing.history import DENSE_SEEDS, draw
from tests.simulation.history import Outcome, play
from tests.simulation.mutants import KEPT
from tests.simulation.recipe import cooked, recipe_of

pytestmark = pytest.mark.history

# of a minute; `make simulate` plays as many as there is time for
FIXED = range(20)
_GROUP = 10
_FOUND = sorted(KEPT.glob("*.json"))


def _failure_text(outcome: Outcome) -> str:
    again = f"python -m tests.simulation replay {recipe_of(outcome.plan)}"
    return f"{outcome.broken}\n{outcome.trace.text(80)}\ncut it down and print it: {again}"


@pytest.mark.parametrize("first", [*FIXED[::_GROUP], DENSE_SEEDS])
def test_every_promise_holds_in_fixed_histories(first: int) -> None:
    for seed in range(first, first + _GROUP):
        outcome = play(draw(seed))
        assert outcome.broken is None, _failure_text(outcome)


@pytest.mark.parametrize("path", _FOUND, ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    outcome = play(cooked(str(path)))
    assert outcome.broken is None, _failure_text(outcome)


def test_a_seed_is_one_history_to_the_byte_in_any_process() -> None:
    program = "from tests.simulation.history import play\n"
    program += "from tests.simulation.drawing.history import draw\n"
    program += "print([play(draw(s)).digest for s in range(6)])"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    here = str([play(draw(seed)).digest for seed in reversed(range(6))][::-1])
    assert printed == {here + "\n"}


def test_a_recipe_and_a_file_name_the_same_history(tmp_path: Path) -> None:
    plan = draw(7)
    smaller = plan.without_agent(plan.agents[-1].name).without_beats().at_once()
    smaller = smaller.with_steps(smaller.steps[::3])
    assert cooked(recipe_of(smaller)) == smaller
    assert cooked(recipe_of(plan)) == plan
    smaller.save(tmp_path / "one.json")
    assert cooked(str(tmp_path / "one.json")) == smaller
