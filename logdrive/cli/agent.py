"""`logdrive agent …`: follow files, or ship them once."""

import os

import click

from agent.app import run as follow
from agent.config import AgentConfig
from logdrive.cli.output import set_up_logging
from logdrive.cli.runtime import Machine
from logdrive.cli.runtime import run as run_program
from logdrive.config import load

_PACKING_THREADS = 2

_config = click.option("--config", "path", required=True, type=click.Path(dir_okay=False), help="The agent's TOML file.")


@click.group()
def agent() -> None:
    """Follow files through rotation and restarts, and deliver every line once."""


@agent.command(epilog="Example: logdrive agent run --config /etc/logdrive/agent.toml")
@_config
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True)
def run(path: str, log_level: str) -> None:
    """Follow files until SIGTERM, then drain: what they hold by then is sent and acknowledged first."""
    set_up_logging(log_level)
    config = load(path, AgentConfig, os.environ)

    async def program(machine: Machine) -> None:
        await follow(
            config,
            clock=machine.clock,
            disk=machine.disk,
            transport=machine.transport,
            executor=machine.executor,
            random=machine.random,
            stop=machine.stop,
        )

    run_program(program, threads=_PACKING_THREADS)
