"""Options by which commands name the running agent that they ask."""

import os
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from agent.config.config import AgentConfig
from agent.sources.paths import printable_path
from logdrive.cli.config_files import AGENT_CONFIG
from logdrive.config.credentials import VARIABLE
from logdrive.config.load import load_config
from logdrive.errors import ConfigError, Mistake
from logdrive.printable import escape_unprintable

_ORIGIN: Final = re.compile(r"[0-9A-Fa-f-]+")
"""An origin id, or the beginning of one."""

Command = TypeVar("Command", bound=Callable[..., Any])


def path_as_shown(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Return a path, or a pattern, with U+FFFD for bytes that are not UTF-8, as the agent shows it.

    A callback of options and arguments.
    """
    return None if value is None else printable_path(value)


def source_as_shown(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Return an origin id as it is, and a path absolute, as the agent shows it: a callback.

    An absolute path stays as it is written: `..` behind a link leads elsewhere than its text says.
    """
    if not value:
        raise click.BadParameter("a source is named by its path, or by its origin id, not by ''")
    if _ORIGIN.fullmatch(value):
        return value
    path = value if os.path.isabs(value) else os.path.abspath(value)
    shown = printable_path(path)
    if os.path.isdir(path):
        raise click.BadParameter(
            f"{escape_unprintable(shown)} is a directory, and a source is one file: name that by "
            "its path, or a source by its origin id"
        )
    return shown


def agent_target(command: Command) -> Command:
    """Give *command* the options --config and --socket, as its arguments *config* and *socket*."""
    socket = click.option(
        "--socket",
        type=click.Path(dir_okay=False),
        help="The agent's control socket, instead of --config.",
    )
    config = click.option(
        "--config",
        type=click.Path(dir_okay=False),
        help=f"The agent's TOML file, which names its socket.  [default: {AGENT_CONFIG}]",
    )
    return config(socket(command))


def control_socket(config: str | None, socket: str | None) -> str:
    """Return the path of the control socket that the options name. Raises `ConfigError`."""
    if socket is not None:
        if config is not None:
            raise click.UsageError("--config and --socket exclude each other")
        return socket
    path = config or AGENT_CONFIG
    # keys are of no interest here, so their directory need not be known
    loaded = load_config(path, AgentConfig, {VARIABLE: "/run/credentials", **os.environ})
    if not (named := loaded.control.socket_path(loaded.agent.state_dir)):
        raise ConfigError(
            path,
            [Mistake("control.socket", "", "this agent has none: name one, and start it anew")],
        )
    return named
