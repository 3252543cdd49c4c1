"""Random histories of files: written, rotated, truncated, copied, compressed, removed, set aside,
with agents that die between any two calls and lose their checkpoints. Each byte is in exactly one
event or gap (G1-G5, P1-P5, A3).
"""

import time

import pytest

from tests.simulation.drawing import draw
from tests.simulation.file_histories import FILE_SEEDS
from tests.simulation.history import play
from tests.simulation.recipe import recipe_of

pytestmark = pytest.mark.history

FIXED = 20
FRESH = 10


def test_every_byte_of_every_file_is_in_one_event_or_gap() -> None:
    _play(FILE_SEEDS, FIXED)


def test_every_byte_is_in_one_event_or_gap_in_fresh_histories_too() -> None:
    _play(FILE_SEEDS + int(time.time()) * 1000, FRESH)  # the failure names the seed


def _play(first: int, count: int) -> None:
    for seed in range(first, first + count):
        outcome = play(draw(seed))
        assert outcome.broken is None, (
            f"{outcome.broken}\n{outcome.trace.text(80)}\ncut it down and print it: "
            f"python -m tests.simulation replay {recipe_of(outcome.plan)}"
        )
