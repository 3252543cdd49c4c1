"""The option that names the agent's configuration."""

import click

config_option = click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(dir_okay=False),
    help="The agent's TOML file.",
)
"""Give a command the option --config, as its argument *path*."""
