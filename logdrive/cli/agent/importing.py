"""`logdrive agent import`: agent.toml made of the configuration of another shipper."""

import os
import re
import shlex
from pathlib import Path

import click

from agent.config.config import AgentConfig
from agent.importing.filebeat import import_filebeat
from agent.importing.filebeat_registry import read_registry
from agent.importing.fluent_bit import import_fluent_bit
from agent.importing.imported import Imported
from agent.importing.rotated_files import positions_of_rotated
from agent.importing.toml_text import toml_text
from agent.inputs.files.paths.pattern_check import join_paths
from agent.inputs.files.taken_positions import TakenPosition, TakenPositions
from logdrive.config.load import parse_config
from logdrive.errors import ConfigError, Mistake
from logdrive.host.disk import SystemDisk
from logdrive.printable import escape_unprintable

_STATE_DIR = "/var/lib/logdrive-agent"
_EXISTS = "it exists: give another name, or remove it"
_NO_INPUT = (
    "it has no input that the agent can take over: enable one in it that reads files of absolute "
    "paths, or write agent.toml by hand, for which docs/agent.md has a table of its keys and ours"
)
_NO_POSITIONS = (
    "it has no position of a file, so the agent would read all of them from where `start` says: "
    "give the registry of the Filebeat that read them, or leave --registry out"
)
_FLUENT_BIT = re.compile(r"(?im)^\s*\[INPUT\]\s*$|^pipeline:\s*(#.*)?$")
"""A section of its classic form, or the first table of the other. Filebeat has keys of this name
that have a value.
"""


@click.command(
    "import",
    short_help="Make agent.toml of a filebeat.yml or a Fluent Bit configuration.",
    epilog="Example: logdrive agent import /etc/filebeat/filebeat.yml --registry "
    "/var/lib/filebeat/registry --to /etc/logdrive/agent.toml",
)
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@click.option("--to", type=click.Path(dir_okay=False), help="Where to write it; default: print it.")
@click.option(
    "--registry",
    type=click.Path(exists=True),
    help="Filebeat's registry: the agent's first start goes on from its positions. Stop Filebeat "
    "before.",
)
@click.option(
    "--state-dir",
    default=_STATE_DIR,
    show_default=True,
    help="[agent] state_dir; the positions are written there.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be written.")
def import_(file: str, to: str | None, registry: str | None, state_dir: str, dry_run: bool) -> None:
    """Make agent.toml of FILE: a filebeat.yml, or a Fluent Bit configuration with tail inputs.

    What has no counterpart is listed on standard error, and in comments of the file. Nothing that
    exists is overwritten.
    """
    imported = _import(_read(file), file)
    made = _agent_toml(imported, file, state_dir)
    positions = _positions(registry, made) if registry is not None else []
    if registry is not None and not positions:
        raise ConfigError(registry, [Mistake("--registry", "", _NO_POSITIONS)])
    if to is not None and not dry_run and os.path.exists(to):
        raise ConfigError(to, [Mistake("--to", "", _EXISTS)])
    if registry is not None:
        _write_positions(positions, state_dir, dry_run=dry_run)

    if to is None or dry_run:
        click.echo(made, nl=False)
    else:
        try:
            with open(to, "x", encoding="utf-8") as target:
                target.write(made)
        except FileExistsError:
            raise ConfigError(to, [Mistake("--to", "", _EXISTS)]) from None
    _print_remarks(imported)
    if to is not None and not dry_run:
        click.echo(f"{to} is written: try `logdrive agent check --config {to}`", err=True)


def _read(path: str) -> str:
    """Return the text of the file at *path*. Raises `ConfigError` if it is not UTF-8."""
    content = Path(path).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        remedy = (
            "it is not UTF-8: convert the file, as Latin-1 with "
            f"`iconv -f latin1 -t utf-8 {shlex.quote(path)}`, and import what that prints"
        )
        raise ConfigError(path, [Mistake(f"line {line}", "", remedy)]) from error


def _import(text: str, path: str) -> Imported:
    """Return what *text* means; which shipper's it is shows in it."""
    if _FLUENT_BIT.search(text):
        return import_fluent_bit(text, path, os.environ)
    return import_filebeat(text, path, os.environ)


def _agent_toml(imported: Imported, path: str, state_dir: str) -> str:
    """Return agent.toml. Raises `ConfigError`, after the remarks, if no agent would take it."""
    try:
        if not imported.has_input:
            raise ConfigError(path, [Mistake("", "", _NO_INPUT)])
        return toml_text(imported, origin=os.path.basename(path), state_dir=state_dir)
    except ConfigError:
        _print_remarks(imported)
        raise


def _print_remarks(imported: Imported) -> None:
    for remark in imported.remarks:
        click.echo(escape_unprintable(f"{remark.key}: {remark.text}"), err=True)


def _positions(registry: str, made: str) -> list[TakenPosition]:
    """Return those of the registry, and of rotated files that *made* does not name."""
    positions = read_registry(registry)
    tables = parse_config("agent.toml", made, AgentConfig).input
    rotated = positions_of_rotated(tables, positions, SystemDisk())
    if rotated:
        click.echo(
            f"taken as sent, as no input names them: {join_paths([one.path for one in rotated])}; "
            "name rotated files in `paths`, so that one is found that is rotated while no agent "
            "runs",
            err=True,
        )
    return positions + rotated


def _write_positions(positions: list[TakenPosition], state_dir: str, *, dry_run: bool) -> None:
    """Write the positions for the first start, and say which they are."""
    if os.path.exists(os.path.join(state_dir, "checkpoint.json")):
        remedy = "this agent ran already, and knows its positions: give another --state-dir"
        raise ConfigError(state_dir, [Mistake("--registry", "", remedy)])
    if dry_run:
        for one in positions:
            click.echo(f"{one.path}: from byte {one.offset:,}", err=True)
        return
    taken = TakenPositions(SystemDisk(), state_dir)
    taken.save(positions)
    click.echo(f"{len(positions):,} positions are in {taken.path}", err=True)
