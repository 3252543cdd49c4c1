"""`logdrive agent …`: follow files, ship them once, check the configuration, enroll, ask."""

import os
from functools import partial

import click

from agent.app import run_agent as follow
from agent.config.config import AgentConfig
from agent.reload import Reloader
from logdrive.cli.agent.config_option import config_option
from logdrive.cli.lazy import LazyCommands
from logdrive.cli.log_forms import LogForm
from logdrive.cli.log_options import log_format_option, log_level_option
from logdrive.cli.output import configure_logging
from logdrive.cli.runtime import PACKING_THREADS, Machine, run_program
from logdrive.config.load import load_config, name_keys_in_errors
from logdrive.host.heap import give_back_freed_memory
from logdrive.host.service_manager import ServiceManager


@click.group(
    cls=LazyCommands,
    lazily={
        "check": "logdrive.cli.agent.checking",
        "enroll": "logdrive.cli.agent.enroll",
        "import": "logdrive.cli.agent.importing",
        "ship": "logdrive.cli.agent.shipping",
        "source": "logdrive.cli.agent.sources",
        "status": "logdrive.cli.agent.status",
    },
    short_help="Follow files and deliver every line exactly once.",
    epilog="Example: logdrive agent check --config agent.toml && logdrive agent run --config "
    "agent.toml",
)
def agent() -> None:
    """Follow files through rotation and restarts, and deliver every line exactly once."""


@agent.command(
    short_help="Follow files until SIGTERM, then deliver what is left.",
    epilog="Example: logdrive agent run --config /etc/logdrive/agent.toml",
)
@config_option
@log_level_option
@log_format_option
def run(path: str, log_level: str, log_format: LogForm) -> None:
    """Follow files until SIGTERM, then drain.

    Draining sends what the files hold by then and waits for its acknowledgement, for at most
    drain_seconds. SIGHUP reloads the configuration and the certificates.
    """
    configure_logging(log_level, log_format, one_a_minute=True)

    def load() -> AgentConfig:
        return load_config(path, AgentConfig, os.environ)

    config = load()
    manager = ServiceManager.from_environment(os.environ)

    async def program(machine: Machine) -> None:
        await follow(
            config,
            host=machine,
            stop=machine.stop,
            open_files=machine.open_files,
            when_idle=give_back_freed_memory,
            reloader=Reloader(
                load,
                machine.hangup,
                naming=partial(name_keys_in_errors, path),
                on_begin=manager.reloading,
                on_end=manager.ready,
            ),
            service_manager=manager,
            control_socket=True,
        )

    with name_keys_in_errors(path, config):
        run_program(program, threads=PACKING_THREADS, reloads=True)
