"""`logdrive agent …`: follow files, ship them once, check the configuration, enroll."""

import os
from dataclasses import asdict

import click

from agent.app import run_agent as follow
from agent.check import AgentCheckReport, check_agent
from agent.config.config import AgentConfig
from logdrive.cli.lazy import LazyCommands
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.runtime import PACKING_THREADS, Machine, run_program
from logdrive.config.load import load_config, name_keys_in_errors
from logdrive.host.heap import give_back_freed_memory

_config = click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(dir_okay=False),
    help="The agent's TOML file.",
)


@click.group(
    cls=LazyCommands,
    lazily={"enroll": "logdrive.cli.enroll", "ship": "logdrive.cli.shipping"},
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
@_config
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def run(path: str, log_level: str) -> None:
    """Follow files until SIGTERM, then drain.

    Draining sends what the files hold by then and waits for its acknowledgement, for at most
    drain_seconds.
    """
    configure_logging(log_level)
    config = load_config(path, AgentConfig, os.environ)

    async def program(machine: Machine) -> None:
        await follow(
            config,
            host=machine,
            stop=machine.stop,
            open_files=machine.open_files,
            when_idle=give_back_freed_memory,
        )

    with name_keys_in_errors(path, config):
        run_program(program, threads=PACKING_THREADS)


@agent.command(
    short_help="Show what a run would read, and whether receivers answer.",
    epilog="Example: logdrive agent check --config /etc/logdrive/agent.toml",
)
@_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(path: str, as_json: bool) -> int:
    """Show which files a run would read, from which position, and whether the receivers answer.

    Reads and sends no line. Exits with 1 if a finding is NOT OK.
    """
    configure_logging("warning")
    config = load_config(path, AgentConfig, os.environ)

    async def program(machine: Machine) -> AgentCheckReport:
        return await check_agent(config, disk=machine.disk, transport=machine.transport)

    checked = run_program(program)
    ok = all(finding.ok for finding in checked.findings)
    if as_json:
        emit_json({"ok": ok} | asdict(checked))
        return 0 if ok else 1
    for file in checked.files:
        click.echo(f"{file.path}: {file.size:,} bytes, {file.plan}")
    for finding in checked.findings:
        click.echo(str(finding))
    return 0 if ok else 1
