"""Commands that are imported when they are asked for, and a logger without what it brings along.

An agent neither waits for the modules of other commands nor keeps them in memory.
"""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import click


class Commands(click.Group):
    """A group some of whose commands stand in modules of their own: *lazily* names these by
    command.

    The command in a module is called as on the command line.
    """

    def __init__(self, *args: Any, lazily: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._modules = dict(lazily)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in order."""
        return sorted([*super().list_commands(ctx), *self._modules])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported; None where there is none of that name."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        found: click.Command = getattr(importlib.import_module(self._modules[cmd_name]), cmd_name)
        return found


def import_structlog() -> None:
    """Import structlog as where rich is not installed: it would take 5 MiB, for tracebacks of a
    kind that is not used here.
    """
    if "rich" in sys.modules or "structlog" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # said by the import system for what can't be imported
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
