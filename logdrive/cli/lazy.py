"""Imports commands on first use, and structlog without rich.

An agent then neither waits for the modules of other commands nor keeps them in memory.
"""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import click


class LazyCommands(click.Group):
    """A command group that imports some of its commands on first use.

    *lazily* maps their names to modules. Each module defines a click command of that name.
    """

    def __init__(self, *args: Any, lazily: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._modules = dict(lazily)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted([*super().list_commands(ctx), *self._modules])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command *cmd_name*, or None if there is no such command."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(self._modules[cmd_name]), cmd_name)
        return command


def import_structlog() -> None:
    """Import structlog as if rich were not installed.

    Structlog would import rich, which takes 5 MiB, for a kind of traceback that is not used here.
    """
    if "rich" in sys.modules or "structlog" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # makes `import rich` fail
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
