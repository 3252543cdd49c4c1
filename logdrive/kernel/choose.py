"""Selects the compiled loops if logdrive was installed with them, else those in Python."""

import os
from importlib import import_module
from types import ModuleType


def compiled_or(plain: ModuleType, name: str, *loops: str) -> ModuleType:
    """Return the compiled module *name* of this package, or *plain*, which does the same.

    *plain* also if the compiled one, built for an earlier version, lacks one of *loops*.
    `LOGDRIVE_LOOPS=plain` in the environment selects the Python ones.
    """
    if os.environ.get("LOGDRIVE_LOOPS") == "plain":
        return plain
    try:
        compiled = import_module(f"logdrive.kernel.{name}")
    except ImportError:
        return plain
    return compiled if all(hasattr(compiled, loop) for loop in loops) else plain
