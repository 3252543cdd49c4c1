"""`logdrive receiver …`: run a receiver, or check its configuration."""

import os
from dataclasses import asdict

import click
import structlog

from logdrive.address import host_port_text
from logdrive.check import Finding
from logdrive.cli.config_files import RECEIVER_CONFIG
from logdrive.cli.log_forms import LogForm
from logdrive.cli.log_options import log_format_option, log_level_option
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.runtime import Machine, run_program
from logdrive.config.load import load_config, name_keys_in_errors
from receiver.app import Started
from receiver.app import run as receive
from receiver.check import check_receiver, require_usable_certificates
from receiver.config import ReceiverConfig

_config = click.option(
    "--config",
    "path",
    default=RECEIVER_CONFIG,
    show_default=True,
    type=click.Path(dir_okay=False),
    help="The receiver's TOML file.",
)


@click.group(
    short_help="Receive lines from agents and Beats, and store them durably.",
    epilog="Example: logdrive receiver check --config receiver.toml && logdrive receiver run "
    "--config receiver.toml",
)
def receiver() -> None:
    """Receive lines from agents and Beats, and acknowledge them once they are stored durably."""


@receiver.command(
    short_help="Receive until SIGTERM.",
    epilog="Example: logdrive receiver run --config /etc/logdrive/receiver.toml",
)
@_config
@log_level_option
@log_format_option
def run(path: str, log_level: str, log_format: LogForm) -> None:
    """Receive until SIGTERM, then drain.

    Draining makes everything that was received durable and acknowledges it.
    """
    configure_logging(log_level, log_format, one_a_minute=True)
    config = load_config(path, ReceiverConfig, os.environ)

    def started(listeners: Started) -> None:
        structlog.get_logger("receiver").info(
            "listening",
            address=_shown(listeners.address),
            pravega=_shown(listeners.pravega),
        )

    async def program(machine: Machine) -> None:
        await require_usable_certificates(config, machine.transport)
        await receive(
            config,
            host=machine,
            stop=machine.stop,
            started=started,
            environ=os.environ,
        )

    with name_keys_in_errors(path, config):
        run_program(program, max_connections=config.listen.max_connections)


@receiver.command(
    short_help="Check configuration, certificates, addresses and disk.",
    epilog="Example: logdrive receiver check --config /etc/logdrive/receiver.toml",
)
@_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(path: str, as_json: bool) -> int:
    """Check what `run` needs, without serving: certificates, addresses, directory, disk.

    Exits with 1 if a finding is NOT OK.
    """
    configure_logging("warning")
    config = load_config(path, ReceiverConfig, os.environ)

    async def program(machine: Machine) -> list[Finding]:
        return await check_receiver(
            config,
            clock=machine.clock,
            disk=machine.disk,
            transport=machine.transport,
            environ=os.environ,
        )

    findings = run_program(program)
    if as_json:
        emit_json(
            {
                "ok": all(finding.ok for finding in findings),
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        for finding in findings:
            click.echo(str(finding))
    return 0 if all(finding.ok for finding in findings) else 1


def _shown(address: tuple[str, int] | None) -> str:
    return host_port_text(*address) if address is not None else "off"
