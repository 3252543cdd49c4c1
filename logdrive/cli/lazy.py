"""Imports commands on first use, and libraries without optional parts that are not used here.

An agent then neither waits for the modules of other commands nor keeps them in memory.
"""

import contextlib
import importlib
import keyword
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

_UNUSED: Final = ("rich", "ssl")
"""Modules that structlog and asyncio import if they are there.

Rich is for a kind of traceback that is not used here, and takes 5 MiB. The standard library's TLS
takes 1: all TLS here is OpenSSL's as cryptography brings it (`logdrive.net`).
"""


class LazyCommands(click.Group):
    """A command group that imports some of its commands on first use.

    *lazily* maps their names to modules. Each module defines a click command of that name, a
        keyword of Python with an underscore behind it.
    *without* maps names to modules that are hidden while the command is imported.
    """

    def __init__(
        self,
        *args: Any,
        lazily: Mapping[str, str],
        without: Mapping[str, tuple[str, ...]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self._modules = dict(lazily)
        self._without = dict(without or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted([*super().list_commands(ctx), *self._modules])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command *cmd_name*, or None if there is no such command."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        with hide_modules(*self._without.get(cmd_name, ())):
            module = importlib.import_module(self._modules[cmd_name])
        # a keyword of Python can't be a function's name
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(module, name)
        return command


@contextlib.contextmanager
def hide_modules(*names: str) -> Iterator[None]:
    """Make `import` fail for *names*, as if they were not installed; not for those imported before.

    For modules that others import only if they are there.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # makes the import fail
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def import_structlog() -> None:
    """Import structlog, and with it asyncio, without what they import and is not used here."""
    with hide_modules(*_UNUSED):
        importlib.import_module("structlog")
