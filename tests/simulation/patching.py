"""Patches one module as it is imported.

As a pytest plugin (`-p`) it puts the bug that the environment names under the tests.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from tests.simulation.bugs.every import MUTANTS
from tests.simulation.bugs.mutant import Mutant

VARIABLE: Final = "LOGDRIVE_TESTS_BUG"


def mutated(mutant: Mutant) -> str:
    """Return the source of the mutant's module with the bug in it.

    Raises ValueError if the module does not have the quoted text exactly once.
    """
    spec = importlib.util.find_spec(mutant.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    for old, new in mutant.edits:
        if source.count(old) != 1:
            raise ValueError(
                f"{mutant.name}: {mutant.module} has {source.count(old)} times what is to "
                f"be changed:\n{old}"
            )
        source = source.replace(old, new)
    return source


def named(name: str) -> Mutant:
    """Return the mutant *name*. Raises StopIteration if there is none."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def patch(mutant: Mutant) -> None:
    """Put the bug into the mutant's module, which must not be imported yet."""
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    sys.meta_path.insert(0, _Patcher(mutant))


class _Patcher(MetaPathFinder):
    """Finds the mutant's module, with the bug in it."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
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


if VARIABLE in os.environ:
    patch(named(os.environ[VARIABLE]))
