"""`logdrive agent enroll`: an agent's certificates, and where it sends, from one file."""

import json
import os
import tomllib
from datetime import UTC, datetime
from typing import Any, Final

import click

from logdrive.address import host_port
from logdrive.cli.bundle import Bundle, read_bundle
from logdrive.errors import file_error_text
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk, write_atomically

_OUTPUT: Final = """
[output]
hosts = [{host}]

[output.tls]
ca = {ca}
cert = {cert}
key = {key}
"""
_NEW: Final = """\
# Made by `logdrive agent enroll`. config/agent.toml, where logdrive comes from, explains every key.

[agent]
state_dir = "/var/lib/logdrive-agent"

[[input]]
paths = [
    "/var/log/**/*.log",
    "/var/log/**/*.log.[0-9]*", # rotated names, too
    "/var/log/**/*.log-[0-9]*",
    "/var/log/syslog*",
    "/var/log/messages*",
    "/var/log/secure*",
    "/var/log/maillog*",
]
exclude = [
    "/var/log/journal/**",
    "/var/log/**/*.gz",
    "/var/log/**/*.bz2",
    "/var/log/**/*.xz",
    "/var/log/**/*.zst",
    "/var/log/**/*.bak",
]
"""


@click.command(
    "enroll",
    short_help="Set up an agent from the file that `certs --bundle` made.",
    epilog="Example: logdrive agent enroll web-1.pem --to logs.example.com:5044",
)
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--to",
    "receiver",
    required=True,
    metavar="HOST:PORT",
    help="The receiver; port 5044 where none is given.",
)
@click.option(
    "--dir",
    "directory",
    default="/etc/logdrive",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where agent.toml is, and tls/ beside it.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace a certificate and key that are there; agent.toml is never replaced.",
)
def enroll(bundle: str, receiver: str, directory: str, force: bool) -> None:
    """Write tls/ca.pem, client.pem and client.key from BUNDLE, and [output] into agent.toml.

    An agent.toml that is missing is made, one without [output] gets it, any other stays as it is.
    """
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    directory = os.path.abspath(directory)
    config = os.path.join(directory, "agent.toml")
    try:
        host_port(receiver)
        held, document = read_bundle(bundle, now), _document(config)
        paths = _write_tls(os.path.join(directory, "tls"), held, force)
        done = _write_config(config, document, receiver, paths)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(file_error_text(error)) from error
    click.echo(f"{directory}/tls has the certificates of {held.identity}")
    click.echo(done)
    click.echo(f"next: logdrive agent check --config {config}")
    click.echo(f"remove {bundle} then: it holds the agent's key")


def _document(path: str) -> dict[str, Any] | None:
    """Return the agent.toml that is there, None where there is none. Raises ValueError."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:  # no TOML, or not UTF-8
        raise ValueError(f"{path}: {error}: correct it first") from error


def _write_tls(directory: str, held: Bundle, force: bool) -> dict[str, str]:
    """Write the three files and return their paths; those that are there as they should be stay.

    Raises ValueError naming the first file that has another content, unless *force*.
    """
    contents = {"ca": held.ca, "cert": held.certificate, "key": held.key}
    names = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    paths = {part: os.path.join(directory, name) for part, name in names.items()}
    changed = [part for part, path in paths.items() if _content(path) != contents[part]]
    there = [paths[part] for part in changed if os.path.lexists(paths[part])]
    if there and not force:
        remedy = "--force replaces it, --dir names another directory"
        raise ValueError(f"{there[0]} is there already, with other content: {remedy}")
    os.makedirs(directory, exist_ok=True)
    for part in changed:
        write_atomically(SystemDisk(), paths[part], contents[part], private=part == "key")
    return paths


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write_config(
    path: str, document: dict[str, Any] | None, receiver: str, paths: dict[str, str]
) -> str:
    """Add [output] to agent.toml where it has none, and return what became of the file."""
    quoted = {name: json.dumps(value) for name, value in {"host": receiver, **paths}.items()}
    table = _OUTPUT.format(**quoted)
    if document is None:
        with open(path, "x", encoding="utf-8") as file:
            file.write(_NEW + table)
        return f"{path} is new: it sends what is in /var/log to {receiver}"
    if "output" not in document:
        with open(path, "a", encoding="utf-8") as file:  # in place: its owner and mode stay
            file.write("\n" + table.lstrip("\n"))
        return f"{path} has an [output] to {receiver} now"
    return (
        f"{path} has an [output] of its own, and stays as it is. For this receiver it needs:\n"
        f"{table}"
    )
