"""The simulator sees: every deliberate bug still fits the code, and some are hunted here (all of
them: `make mutants`).
"""

from pathlib import Path

import pytest

from tests.simulation.bugs.every import MUTANTS
from tests.simulation.bugs.mutant import Mutant
from tests.simulation.drawing.history import draw
from tests.simulation.history import play
from tests.simulation.mutants import failing_test, hunt, room_of
from tests.simulation.patching import mutated, named
from tests.simulation.shrink import shrink

pytestmark = pytest.mark.history

_HUNTED = (
    "store.failed_write_kept",
    "retention.reader_overtaken",
    "scaling.number_left_behind",
    "receiver.ack_before_durable",
    "agent.resends_without_asking",
    "sink.done_when_sent",
)
_SEEDS = 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_bug_fits_the_code_as_it_is(mutant: Mutant) -> None:
    compile(mutated(mutant), mutant.module, "exec")


@pytest.mark.thorough
def test_bugs_are_found_within_a_few_seeds() -> None:
    missed = [
        mutant.name
        for mutant, discovery in hunt(_HUNTED, _SEEDS, 1, tests=False)
        if discovery is None
    ]
    assert not missed


def test_unit_tests_are_run_with_the_bug_in_place() -> None:
    test = failing_test(named("agent.off_by_one"), ["tests/agent/inputs/files/test_file.py"])
    assert test.startswith("tests/agent/inputs/files/test_file.py::")
    assert not failing_test(
        named("agent.off_by_one"), ["tests/agent/inputs/files/paths/test_globs.py"]
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_there_are_unit_tests_for_the_room_of_each_bug(mutant: Mutant) -> None:
    assert Path(room_of(mutant.module)).is_dir()


@pytest.mark.thorough
def test_a_failing_history_is_cut_down_to_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bug patched in: acknowledgements that wait for nothing."""
    from receiver.acks import AckQueue, OpenWindow

    def end(self: AckQueue, last: int) -> None:
        window: OpenWindow = self.current_window
        window.holds, window.last = 0, last
        self._current = None
        self._flush()

    monkeypatch.setattr(AckQueue, "end_window", end)
    failing = next(
        outcome for seed in range(_SEEDS) if (outcome := play(draw(seed))).broken is not None
    )
    small = shrink(failing, tries=60)
    assert small.broken is not None
    assert failing.broken is not None
    assert small.broken.promise == failing.broken.promise
    assert len(small.plan.steps) < len(failing.plan.steps) / 2
