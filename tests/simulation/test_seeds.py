"""Histories: fixed seeds, those that once found a fault; and that they repeat.

Fresh seeds, which nobody has tried, say nothing of the change that meets them: `make simulate
ARGS=--fresh` plays those.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from itertools import zip_longest
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


def _told(seeds: Iterable[int]) -> list[str]:
    """Return the traces of *seeds*, each with the digest of all that was stored at its end."""
    outcomes = [play(draw(seed)) for seed in seeds]
    return [f"{outcome.trace.text()}\n{outcome.digest}" for outcome in outcomes]


def _first_difference(one: list[str], other: list[str]) -> str:
    """Return the first line in which two lists of texts differ, "" without one."""
    for number, texts in enumerate(zip(one, other, strict=True)):
        for lines in zip_longest(*(text.splitlines() for text in texts)):
            if lines[0] != lines[1]:
                return f"seed {number}:\n{lines[0]}\n{lines[1]}"
    return ""


def test_a_seed_is_one_history_to_the_byte_in_any_process() -> None:
    program = "import json\nfrom tests.simulation.test_seeds import _told\n"
    program += "print(json.dumps(_told(range(6))))"
    here = _told(reversed(range(6)))[::-1]
    for seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        assert _first_difference(json.loads(printed), here) == ""


def test_a_recipe_and_a_file_name_the_same_history(tmp_path: Path) -> None:
    plan = draw(7)
    smaller = plan.without_agent(plan.agents[-1].name).without_beats().at_once()
    smaller = smaller.with_steps(smaller.steps[::3])
    assert cooked(recipe_of(smaller)) == smaller
    assert cooked(recipe_of(plan)) == plan
    smaller.save(tmp_path / "one.json")
    assert cooked(str(tmp_path / "one.json")) == smaller
