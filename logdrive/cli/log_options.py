"""The options `--log-level` and `--log-format` of commands that run until they are stopped."""

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from logdrive.cli.log_forms import LogForm

Command = TypeVar("Command", bound=Callable[..., Any])


def log_level_option(command: Command) -> Command:
    """Add the option `--log-level` to *command*, which receives it as `log_level`."""
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
    )(command)


def log_format_option(command: Command) -> Command:
    """Add the option `--log-format` to *command*, which receives it as `log_format`."""
    return click.option(
        "--log-format",
        type=click.Choice(get_args(LogForm)),
        default="auto",
        show_default=True,
        help="auto: the journal's where systemd reads it, else console (key=value without a "
        "terminal).",
    )(command)
