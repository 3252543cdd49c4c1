"""Random histories of files: written, rotated, truncated, copied, compressed, removed, set aside,
with agents that die between any two calls and lose their checkpoints. Each byte is in exactly one
event or gap (G1-G5, P1-P5, A3).
"""

import pytest

from tests.simulation.drawing.file_histories import DENSE_FILE_SEEDS, EVENT_SEEDS, FILE_SEEDS
from tests.simulation.drawing.history import draw
from tests.simulation.history import play
from tests.simulation.recipe import recipe_of

pytestmark = pytest.mark.history

FIXED = 30


@pytest.mark.parametrize(
    "first", [FILE_SEEDS, DENSE_FILE_SEEDS, EVENT_SEEDS], ids=["wide", "dense", "events"]
)
def test_every_byte_of_every_file_is_in_one_event_or_gap(first: int) -> None:
    for seed in range(first, first + FIXED):
        outcome = play(draw(seed))
        assert outcome.broken is None, (
            f"{outcome.broken}\n{outcome.trace.text(80)}\ncut it down and print it: "
            f"python -m tests.simulation replay {recipe_of(outcome.plan)}"
        )
