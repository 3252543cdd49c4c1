"""The compiled loops, as they were installed or as test_sanitized.py built them."""

import os
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from tests.conftest import unavailable


def compiled_module(name: str) -> ModuleType:
    """Return the compiled module *name*; that of `SANITIZED_LOOPS` if the environment has it."""
    if (path := os.environ.get("SANITIZED_LOOPS")) is not None:
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    try:
        return import_module(name)
    except ImportError as error:
        unavailable(
            f"the compiled loops ({error}): a C compiler and Python's headers when "
            "logdrive is installed"
        )
