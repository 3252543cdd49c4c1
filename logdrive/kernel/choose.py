"""Selects the compiled loops if logdrive was installed with them, else those in Python."""

import os
from importlib import import_module
from inspect import isfunction
from types import ModuleType


def compiled_or(plain: ModuleType, name: str) -> ModuleType:
    """Return the compiled module *name* of this package, or *plain*, which does the same.

    `LOGDRIVE_LOOPS=plain` in the environment selects the Python ones.
    """
    if os.environ.get("LOGDRIVE_LOOPS") == "plain":
        return plain
    try:
        compiled = import_module(f"logdrive.kernel.{name}")
    except ImportError:
        return plain
    # an earlier version's module, left where it was built, may lack a loop
    whole = all(hasattr(compiled, loop) for loop in _loops(plain))
    return compiled if whole else plain


def _loops(plain: ModuleType) -> list[str]:
    """Return the names of the functions that *plain* has for others."""
    return [name for name, one in vars(plain).items() if isfunction(one) and name[0] != "_"]
