"""Hunts deliberate bugs: each is patched into one module as a process of its own imports it.

Seeds are played until one finds the bug; if none does, the histories that once found a fault, and
then the unit tests of the module's room are run.
A simulator that finds nothing may be blind: the bugs show what it sees. `docs/simulator.md` lists
them with the seeds that found them.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from tests.simulation.bugs.every import MUTANTS
from tests.simulation.bugs.mutant import Mutant
from tests.simulation.patching import VARIABLE, named, patch
from tests.simulation.plan import ALIKE_OVER_S2

MOST_SEEDS = 400  # default limit on the seeds played for one bug
KEPT: Final = Path(__file__).parent / "found"
"""Histories that once found a fault."""
_ROOT: Final = Path(__file__).parents[2]
_ROOMS: Final = (
    ("agent.", "tests/agent"),
    ("receiver.", "tests/receiver"),
    ("logdrive.store.", "tests/logdrive/store"),
    ("logdrive.services.", "tests/logdrive/services"),
    ("logdrive.pipeline.", "tests/logdrive/pipeline"),
    ("logdrive.wire.", "tests/logdrive/wire"),
    ("logdrive.net.", "tests/logdrive/net"),
    ("logdrive.", "tests/logdrive"),
)
_TESTS_SECONDS: Final = 900  # limit on a run of unit tests
_WITHOUT: Final = "not process and not spark and not pravega_server"
"""Tests that start processes are left out: the bug is in the process of the tests only."""


@dataclass(frozen=True, slots=True)
class Found:
    """What found a bug first."""

    seed: int | None  # counted from the first one hunted; None: a kept history, or a unit test
    what: str  # the promise that the seed broke, or the name of that history or test


def hunt(
    only: Sequence[str], most: int, jobs: int, *, tests: bool = True
) -> Iterator[tuple[Mutant, Found | None]]:
    """Yield each mutant with what found it, None if nothing did.

    *only* gives beginnings of names, none for all mutants; *most* limits the seeds for each. Unit
    tests are run only with *tests*.
    """
    chosen = [mutant for mutant in MUTANTS if not only or mutant.name.startswith(tuple(only))]
    count = len(chosen)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        yield from zip(
            chosen,
            pool.map(_hunted, [mutant.name for mutant in chosen], [most] * count, [tests] * count),
            strict=True,
        )


def _hunted(name: str, most: int, tests: bool) -> Found | None:
    mutant = named(name)
    patch(mutant)
    # only now: these import the modules under test
    from tests.simulation.drawing.file_histories import EVENT_SEEDS, FILE_SEEDS
    from tests.simulation.drawing.history import draw
    from tests.simulation.history import play

    first = EVENT_SEEDS if mutant.of_events else FILE_SEEDS if mutant.of_files else 0
    for seed in range(first, first + most):
        if (mutant.over_s2 or mutant.over_iggy) and seed in ALIKE_OVER_S2:
            continue
        plan = draw(seed)
        if mutant.over_s2:
            plan = plan.over_s2()
        elif mutant.over_iggy:
            plan = plan.over_iggy()
        try:
            outcome = play(plan)
        except Exception as error:  # a bug may also break what judges it
            return Found(seed - first, f"the history could not be judged: {type(error).__name__}")
        if outcome.broken is not None:
            return Found(seed - first, outcome.broken.promise)
    if kept := _failing_kept(mutant):
        return Found(None, kept)
    test = failing_test(mutant, [room_of(mutant.module)]) if tests else ""
    return Found(None, test) if test else None


def _failing_kept(mutant: Mutant) -> str:
    """Return the name of the first kept history that fails with the bug, "" if all hold."""
    from tests.simulation.history import play
    from tests.simulation.recipe import cooked

    if mutant.over_s2 or mutant.over_iggy:
        return ""
    for path in sorted(KEPT.glob("*.json")):
        try:
            broken = play(cooked(str(path))).broken
        except Exception:  # as in a seed
            return path.stem
        if broken is not None:
            return path.stem
    return ""


def room_of(module: str) -> str:
    """Return the directory with the unit tests of the room of *module*."""
    return next(tests for room, tests in _ROOMS if module.startswith(room))


def failing_test(mutant: Mutant, paths: Sequence[str]) -> str:
    """Return the first unit test below *paths* that fails with the bug, "" if all pass."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "tests.simulation.patching",
        "-p",
        "no:cacheprovider",
    ]
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ,
            VARIABLE: mutant.name,
            "HYPOTHESIS_STORAGE_DIRECTORY": directory,
        }
        try:
            ran = subprocess.run(
                [*command, "-m", _WITHOUT, *paths],
                cwd=_ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_TESTS_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"{' '.join(paths)} (no end within {_TESTS_SECONDS} s)"
    if ran.returncode == 0:
        return ""
    lines = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if ran.returncode != 1 or not lines:
        raise RuntimeError(
            f"the tests of {mutant.name} could not be run:\n"
            f"{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        )
    return lines[0].split(" ")[1]
