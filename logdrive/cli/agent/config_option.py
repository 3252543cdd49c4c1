"""The option that names the agent's configuration."""

import click

from logdrive.cli.config_files import AGENT_CONFIG

config_option = click.option(
    "--config",
    "path",
    default=AGENT_CONFIG,
    show_default=True,
    type=click.Path(dir_okay=False),
    help="The agent's TOML file.",
)
"""Give a command the option --config, as its argument *path*."""
