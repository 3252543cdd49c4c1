"""`logdrive certs`: a small CA and certificates for trying things out."""

import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from logdrive.cli.bundle import write_bundle
from logdrive.errors import os_error_text
from logdrive.host.clock import SystemClock
from logdrive.net.certificates import FILES, add_clients, has_authority, write_certificates

_ALWAYS = ("localhost", "127.0.0.1", "::1")
_ADVICE = """\
Made in {directory}, valid for {days} days:

  on the receiver   ca.pem server.pem server.key     [listen.tls] ca, cert, key
  on each agent     ca.pem client.pem client.key     [output.tls] ca, cert, key
  kept away         ca.key                           it signs certificates that both sides trust

The server's certificate speaks for {names}.
The client's identity is {identity}. Agents that share it share one identity too: give each further
host its own, with `logdrive certs {directory} --client NAME`. Keys are readable by their
owner only: `chown` them to the user that the receiver or the agent runs as.
"""
_REMEDY = "choose another directory, add a client with --client NAME, or replace all with --force"
_REMEDY_FOR_CLIENT = (
    "copy it and its key to that agent, or remove both to have new ones made by the same CA"
)

_BUNDLED = """\
{bundle} has all three for {identity}. Copy it to that host, and there
  logdrive agent enroll {name} --to HOST:PORT
It holds a private key: remove it here once it is copied.
"""

_ADDED = """\
Made with the CA in {directory}, for {identity}:

  on that agent     ca.pem {stem}.pem {stem}.key     [output.tls] ca, cert, key
"""


@click.command(
    "certs",
    short_help="Make a small CA, and certificates for server and clients.",
    epilog="Example: logdrive certs /etc/logdrive/tls --name logs.example.com --client "
    "web-1.example.com "
    "--bundle web-1.pem; then, for each other host, "
    "logdrive certs /etc/logdrive/tls --client web-2.example.com --bundle web-2.pem",
)
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="A name or address the server is reached by; may be repeated.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="A client's own DNS name or URI; may be repeated. Of a new CA the first (else this "
    "host's name) is client.pem's, "
    "all others get NAME.pem and NAME.key.",
)
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write CA, certificate and key of the one --client to FILE, for `logdrive agent "
    "enroll`.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 36_500),
    default=825,
    show_default=True,
    help="How long they are valid.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace what is there; what the old CA signed is worth nothing then.",
)
def certs(
    directory: str,
    names: tuple[str, ...],
    clients: tuple[str, ...],
    bundle: str | None,
    days: int,
    force: bool,
) -> None:
    """Make a small CA, a server's and a client's certificate in DIRECTORY, or add clients to the CA
    that is there.

    The server's certificate speaks for localhost, 127.0.0.1, ::1, this host's name, and each
    --name.
    """
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    adding = bool(clients) and not force and has_authority(directory)
    if bundle is not None:
        _check_bundle(bundle, clients)
    try:
        if adding:
            paths = _add(directory, names, clients, days, now)
        else:
            paths = _make(directory, names, clients or (socket.gethostname(),), days, now, force)
        if bundle is not None:
            _bundle(bundle, directory, paths, clients[0])
    except FileExistsError as error:
        raise click.UsageError(
            f"{error.args[0]} is there already: {_REMEDY_FOR_CLIENT if adding else _REMEDY}"
        ) from error
    except UnicodeError as error:
        raise click.UsageError(f"a certificate can't speak for that name: {error}") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or directory}: {os_error_text(error)}"
        ) from error


def _make(
    directory: str,
    names: tuple[str, ...],
    clients: tuple[str, ...],
    days: int,
    now: datetime,
    force: bool,
) -> list[str]:
    """Make the CA and all certificates; return the paths of the first client's certificate and
    key.
    """
    spoken_for = list(dict.fromkeys([*names, *_ALWAYS, socket.gethostname()]))
    made = write_certificates(
        directory,
        spoken_for,
        client=clients[0],
        more_clients=clients[1:],
        days=days,
        now=now,
        force=force,
    )
    shown = os.path.abspath(directory)
    click.echo(
        _ADVICE.format(
            directory=shown, days=days, names=", ".join(spoken_for), identity=_identity(clients[0])
        ),
        nl=False,
    )
    _tell(directory, clients[1:], made[len(FILES) :])
    return made[len(FILES) - 2 : len(FILES)]


def _add(
    directory: str, names: tuple[str, ...], clients: tuple[str, ...], days: int, now: datetime
) -> list[str]:
    """Make the clients' certificates; return the paths of the first one's certificate and key."""
    if names:
        raise click.UsageError(
            f"{directory} has a CA and a server's certificate: --name is for a new one"
        )
    made = add_clients(directory, clients, days=days, now=now)
    _tell(directory, clients, made)
    return made[:2]


def _check_bundle(path: str, clients: tuple[str, ...]) -> None:
    """Refuse what could not be written, before any certificate is made."""
    if len(clients) != 1:
        raise click.UsageError(
            "--bundle is for one client: give one --client NAME, the name of that host"
        )
    if os.path.lexists(path):
        raise click.UsageError(
            f"{path} is there already: remove it, or choose another --bundle FILE"
        )
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise click.UsageError(
            f"{os.path.dirname(path)} is no directory: choose another --bundle FILE"
        )


def _bundle(path: str, directory: str, made: Sequence[str], client: str) -> None:
    write_bundle(path, os.path.join(directory, FILES[0]), *made)
    click.echo(
        _BUNDLED.format(bundle=path, identity=_identity(client), name=os.path.basename(path)),
        nl=False,
    )


def _tell(directory: str, clients: Sequence[str], paths: Sequence[str]) -> None:
    for client, path in zip(clients, paths[::2], strict=True):
        stem = os.path.basename(path).removesuffix(".pem")
        click.echo(
            _ADDED.format(
                directory=os.path.abspath(directory), identity=_identity(client), stem=stem
            ),
            nl=False,
        )


def _identity(client: str) -> str:
    return f"uri:{client}" if "://" in client else f"dns:{client}"
