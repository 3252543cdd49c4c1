"""Deliberate bugs: each is patched into one module as it is imported, in a process of its own, and seeds are tried until one finds it.

A simulator that finds nothing may be blind; these show what it sees. `docs/simulator.md` has the list with the seeds it took.
"""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tests.simulation.bugs.every import MUTANTS
from tests.simulation.bugs.mutant import Mutant

MOST_SEEDS = 400


@dataclass(frozen=True, slots=True)
class Found:
    """The first seed that a bug was found with, and the promise that it broke."""

    seed: int
    promise: str


def mutated(mutant: Mutant) -> str:
    """Return the source of the mutant's module with the bug in it. Raises ValueError where the code is no longer as expected."""
    spec = importlib.util.find_spec(mutant.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    for old, new in mutant.edits:
        if source.count(old) != 1:
            raise ValueError(f"{mutant.name}: {mutant.module} has {source.count(old)} times what is to be changed:\n{old}")
        source = source.replace(old, new)
    return source


def hunt(only: Sequence[str], most: int, jobs: int) -> Iterator[tuple[Mutant, Found | None]]:
    """Yield each mutant whose name begins with one of *only* (all, without), with the seed that found it."""
    chosen = [mutant for mutant in MUTANTS if not only or mutant.name.startswith(tuple(only))]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        yield from zip(chosen, pool.map(_hunted, [mutant.name for mutant in chosen], [most] * len(chosen)), strict=True)


def _hunted(name: str, most: int) -> Found | None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    sys.meta_path.insert(0, _Patcher(mutant))
    from tests.simulation.drawing import draw
    from tests.simulation.history import play

    for seed in range(most):
        try:
            outcome = play(draw(seed))
        except Exception as error:  # a bug may also break what judges it
            return Found(seed, f"the history could not be judged: {type(error).__name__}")
        if outcome.broken is not None:
            return Found(seed, outcome.broken.promise)
    return None


class _Patcher(MetaPathFinder):
    """Finds one module, patched."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._mutant.module:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(name, spec.origin, self._mutant)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text()
        for old, new in self._mutant.edits:
            source = source.replace(old, new)
        code: Any = compile(source, self.path, "exec")
        return code  # type: ignore[no-any-return]
