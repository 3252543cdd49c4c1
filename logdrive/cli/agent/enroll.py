"""`logdrive agent enroll`: install an agent's certificates and its [output] from a bundle."""

import json
import os
import tomllib
from datetime import UTC, datetime
from typing import Any, Final

import click

from logdrive.address import peer_address
from logdrive.cli.bundle import Bundle, read_bundle
from logdrive.errors import file_error_text
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk, write_atomically

_OUTPUT_TABLES: Final = """
[output]
hosts = [{host}]
# "packed" are the bytes of the file; for other readers of the stream, "block" is many lines in one
# JSON record, and "full" one JSON event for each line.
#records = "packed"

[output.tls]
ca = {ca}
cert = {cert}
key = {key}
"""
_NEW_AGENT_TOML: Final = """\
# Made by `logdrive agent enroll`. config/agent.toml in logdrive's sources explains every key.

[agent]
state_dir = "/var/lib/logdrive-agent"

[[input]]
paths = [
    "/var/log/**/*.log",
    "/var/log/**/*.log.[0-9]*", # rotated names, too, compressed or not: nothing is sent twice
    "/var/log/**/*.log-[0-9]*",
    "/var/log/syslog*",
    "/var/log/messages*",
    "/var/log/secure*",
    "/var/log/maillog*",
]
exclude = [
    "/var/log/journal/**",
    "/var/log/**/*.bak",
]
# Where the very first run begins in files that are there: "beginning", "end", or with those that
# have changed within an age such as "24h".
#start = "beginning"
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
    help="Receiver to send to; the default port is 5044.",
)
@click.option(
    "--dir",
    "directory",
    default="/etc/logdrive",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Directory of agent.toml and tls/.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace an existing certificate and key. agent.toml is never replaced.",
)
def enroll(bundle: str, receiver: str, directory: str, force: bool) -> None:
    """Write tls/ca.pem, client.pem and client.key from BUNDLE, and [output] into agent.toml.

    Creates agent.toml if it is missing, appends [output] if the file has none, and otherwise leaves
    the file unchanged.
    """
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    directory = os.path.abspath(directory)
    config = os.path.join(directory, "agent.toml")
    try:
        peer_address(receiver)  # refused before any file is written
        contents, document = read_bundle(bundle, now), _read_agent_toml(config)
        paths = _write_tls(os.path.join(directory, "tls"), contents, force)
        done = _write_config(config, document, receiver, paths)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(file_error_text(error)) from error

    click.echo(f"{directory}/tls has the certificates of {contents.identity}")
    click.echo(done)
    click.echo(f"next: logdrive agent check --config {config}")
    click.echo(f"then remove {bundle}: it contains the agent's private key")


def _read_agent_toml(path: str) -> dict[str, Any] | None:
    """Return the parsed agent.toml at *path*, None if there is none.

    Raises ValueError if it is not TOML.
    """
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:  # not TOML, or not UTF-8
        raise ValueError(f"{path}: {error}: correct it first") from error


def _write_tls(directory: str, bundle: Bundle, force: bool) -> dict[str, str]:
    """Write the three files where they are missing, and return their paths.

    A file that already has the right content is left alone. Raises ValueError naming the first file
    with other content, unless *force*.
    """
    contents = {"ca": bundle.ca, "cert": bundle.certificate, "key": bundle.key}
    names = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    paths = {part: os.path.join(directory, name) for part, name in names.items()}
    changed = [part for part, path in paths.items() if _read_if_exists(path) != contents[part]]
    conflicting = [paths[part] for part in changed if os.path.lexists(paths[part])]
    if conflicting and not force:
        remedy = "--force replaces it, --dir names another directory"
        raise ValueError(f"{conflicting[0]} exists already, with other content: {remedy}")

    os.makedirs(directory, exist_ok=True)
    for part in changed:
        write_atomically(SystemDisk(), paths[part], contents[part], private=part == "key")
    return paths


def _read_if_exists(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write_config(
    path: str, document: dict[str, Any] | None, receiver: str, paths: dict[str, str]
) -> str:
    """Add [output] to agent.toml if it has none; return a sentence that says what was done."""
    quoted = {name: json.dumps(value) for name, value in {"host": receiver, **paths}.items()}
    table = _OUTPUT_TABLES.format(**quoted)
    if document is None:  # "x": one that was made since it was looked for is not overwritten
        with open(path, "x", encoding="utf-8") as file:
            file.write(_NEW_AGENT_TOML + table)
        return (
            f"{path} created: it sends the logs in /var/log, from their first line, to {receiver}; "
            "change paths, exclude and start there before the agent's first run"
        )
    if "output" not in document:
        with open(path, "a", encoding="utf-8") as file:  # in place: its owner and mode stay
            file.write("\n" + table.lstrip("\n"))
        return f"{path} now has an [output] to {receiver}"
    return (
        f"{path} already has an [output] and was not changed. For this receiver it needs:\n{table}"
    )
