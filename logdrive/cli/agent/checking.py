"""`logdrive agent check`: what a run would read, or what its steps do to a sample."""

import os
import time
from dataclasses import asdict

import click

from agent.check import AgentCheckReport, check_agent
from agent.config.config import AgentConfig
from agent.inputs.files.paths.pattern_check import join_paths
from logdrive.cli.agent.config_option import config_option
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.runtime import Machine, run_program
from logdrive.config.load import load_config
from logdrive.host.disk import SystemDisk


@click.command(
    short_help="Show what a run would read, and whether receivers answer.",
    epilog="Example: logdrive agent check --config /etc/logdrive/agent.toml",
)
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--sample",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Show instead what each step of an input does to the first lines of FILE, which may be "
    "compressed: .gz, .bz2, .xz or .zst.",
)
@click.option(
    "--input",
    "input_key",
    metavar="KEY",
    help="With --sample: the input, such as input[1] or stdin. Default: the one whose paths match "
    "FILE, or the only one.",
)
@click.option(
    "--events",
    "most_events",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="With --sample: how many events to print of those that a step changed.",
)
def check(
    path: str, as_json: bool, sample: str | None, input_key: str | None, most_events: int
) -> int:
    """Show which files a run would read, from which position, and whether ports are free and the
    receivers answer.

    Reads and sends no line. Exits with 1 if a finding is NOT OK.
    """
    configure_logging("warning")
    config = load_config(path, AgentConfig, os.environ)
    if sample is not None:
        return _check_sample(config, sample, input_key, most_events, as_json=as_json)
    if input_key is not None:
        raise click.UsageError("--input goes with --sample")

    async def program(machine: Machine) -> AgentCheckReport:
        return await check_agent(config, disk=machine.disk, transport=machine.transport)

    checked = run_program(program)
    ok = all(finding.ok for finding in checked.findings)
    if as_json:
        emit_json({"ok": ok} | asdict(checked))
        return 0 if ok else 1
    for file in checked.files:
        more = f"; also named {join_paths(file.names)}" if file.names else ""
        click.echo(f"{file.path}: {file.size:,} bytes, {file.plan}{more}")
    for finding in checked.findings:
        click.echo(str(finding))
    return 0 if ok else 1


def _check_sample(
    config: AgentConfig, sample: str, key: str | None, most_events: int, *, as_json: bool
) -> int:
    from agent.sample import check_sample  # with what makes events of lines
    from logdrive.cli.agent.sample_report import print_sample

    report = check_sample(
        config, os.path.abspath(sample), key, disk=SystemDisk(), monotonic=time.monotonic
    )
    if as_json:
        emit_json(asdict(report))
    else:
        print_sample(report, most_events)
    return 0
