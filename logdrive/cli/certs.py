"""`logdrive certs`: make a small CA, a server certificate and client certificates."""

import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime

import click
from cryptography import x509

from logdrive.address import RECEIVER_PORT
from logdrive.cli.bundle import write_bundle
from logdrive.errors import os_error_text
from logdrive.host.clock import SystemClock
from logdrive.net.certificates import FILES, add_clients, write_certificates
from logdrive.net.identity import certificate_names

_MAX_PEM_BYTES = 65_536
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_ADVICE = """\
Made in {directory}, valid for {days} days:

  on the receiver   ca.pem server.pem server.key     [listen.tls] ca, cert, key
  on each agent     ca.pem client.pem client.key     [output.tls] ca, cert, key
  kept secret       ca.key                           signs certificates that both sides trust

The server certificate is valid for {names}.
The client identity is {identity}. Agents with the same certificate have the same identity:
give each further host its own with `logdrive certs {directory} --client NAME`.
Only their owner can read the keys: `chown` them to the user that runs the receiver or agent.
"""
_REMEDY = "choose another directory, add a client with --client NAME, or replace all with --force"
_REMEDY_WITHOUT_CA = (
    "and no ca.pem: choose another directory, or replace all with --force if they are what is left "
    "of an earlier try"
)
_KEY_GONE = (
    "{key} is missing: clients can only be added where the CA's key is. Run this in the directory "
    "that it was moved to, with ca.pem beside it"
)
_REMEDY_FOR_CLIENT = (
    "copy it and its key to that agent, or remove both to get new ones from the same CA"
)

_BUNDLED = """\
{bundle} holds all three for {identity}. Copy it to that host and run there
  logdrive agent enroll {name} --to {receiver}
It contains a private key: remove it here once it is copied.
"""

_ADDED = """\
Made with the CA in {directory}, for {identity}:

  on that agent     ca.pem {stem}.pem {stem}.key     [output.tls] ca, cert, key
"""


@click.command(
    "certs",
    short_help="Make a small CA, and certificates for the server and clients.",
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
    help="Host name or IP address of the server; may be repeated.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="DNS name or URI of a client; may be repeated. With a new CA the first one (default: "
    "this host's name) gets client.pem, all others NAME.pem.",
)
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write the CA, and the certificate and key of the only --client, to FILE, for "
    "`logdrive agent enroll`.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 36_500),
    default=825,
    show_default=True,
    help="Validity of the certificates.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace an existing CA; certificates that it signed become invalid.",
)
def certs(
    directory: str,
    names: tuple[str, ...],
    clients: tuple[str, ...],
    bundle: str | None,
    days: int,
    force: bool,
) -> None:
    """Make a small CA, a server and a client certificate in DIRECTORY, or add clients to its CA.

    The server certificate is valid for localhost, 127.0.0.1, ::1, this host's name and each --name.
    """
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    # an existing CA is kept: replacing it would void all certificates that it signed
    there = os.path.lexists(os.path.join(directory, FILES[0]))
    adding = bool(clients) and not force and there
    if bundle is not None:
        _check_bundle(bundle, clients)

    try:
        if adding:
            paths = _add_clients(directory, names, clients, days, now)
        else:
            paths = _make_authority(
                directory, names, clients or (socket.gethostname(),), days, now, force
            )
        if bundle is not None:
            _write_client_bundle(bundle, directory, paths, clients[0])
    except FileExistsError as error:
        if not there:
            raise click.UsageError(f"{error.args[0]} exists, {_REMEDY_WITHOUT_CA}") from error
        raise click.UsageError(
            f"{error.args[0]} exists already: {_REMEDY_FOR_CLIENT if adding else _REMEDY}"
        ) from error
    except UnicodeError as error:
        raise click.UsageError(f"a certificate can't contain that name: {error}") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or directory}: {os_error_text(error)}"
        ) from error


def _make_authority(
    directory: str,
    names: tuple[str, ...],
    clients: tuple[str, ...],
    days: int,
    now: datetime,
    force: bool,
) -> list[str]:
    """Make the CA and all certificates; return the paths of the first client's cert and key."""
    server_names = list(dict.fromkeys([*names, *_LOCAL_NAMES, socket.gethostname()]))
    made = write_certificates(
        directory,
        server_names,
        client=clients[0],
        more_clients=clients[1:],
        days=days,
        now=now,
        force=force,
    )
    shown = os.path.abspath(directory)
    click.echo(
        _ADVICE.format(
            directory=shown,
            days=days,
            names=", ".join(server_names),
            identity=_identity(clients[0]),
        ),
        nl=False,
    )
    _print_clients(directory, clients[1:], made[len(FILES) :])
    return made[len(FILES) - 2 : len(FILES)]


def _add_clients(
    directory: str, names: tuple[str, ...], clients: tuple[str, ...], days: int, now: datetime
) -> list[str]:
    """Make the clients' certificates; return the paths of the first client's cert and key."""
    key = os.path.join(directory, FILES[1])
    if not os.path.lexists(key):  # as on a receiver's host from which it was taken
        raise click.UsageError(_KEY_GONE.format(key=key))
    if names:
        raise click.UsageError(
            f"{directory} has a CA and a server certificate already: --name is only for new ones"
        )
    made = add_clients(directory, clients, days=days, now=now)
    _print_clients(directory, clients, made)
    return made[:2]


def _check_bundle(path: str, clients: tuple[str, ...]) -> None:
    """Raise `click.UsageError` if the bundle can't be written, before any certificate is made."""
    if len(clients) != 1:
        raise click.UsageError(
            "--bundle is for one client: give exactly one --client NAME, the name of that host"
        )
    if os.path.lexists(path):
        raise click.UsageError(f"{path} exists already: remove it, or choose another --bundle FILE")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise click.UsageError(
            f"{os.path.dirname(path)} is not a directory: choose another --bundle FILE"
        )


def _write_client_bundle(path: str, directory: str, made: Sequence[str], client: str) -> None:
    write_bundle(path, os.path.join(directory, FILES[0]), *made)
    click.echo(
        _BUNDLED.format(
            bundle=path,
            identity=_identity(client),
            name=os.path.basename(path),
            receiver=_receiver(directory),
        ),
        nl=False,
    )


def _receiver(directory: str) -> str:
    """Return the receiver's address for agents: the first name of its certificate, from --name."""
    try:
        with open(os.path.join(directory, "server.pem"), "rb") as file:
            names = certificate_names(x509.load_pem_x509_certificate(file.read(_MAX_PEM_BYTES)))
    except (OSError, ValueError):  # kept elsewhere than the CA
        names = []
    if not names or names[0] in _LOCAL_NAMES:
        return "HOST:PORT"
    host = f"[{names[0]}]" if ":" in names[0] else names[0]
    return f"{host}:{RECEIVER_PORT}"


def _print_clients(directory: str, clients: Sequence[str], paths: Sequence[str]) -> None:
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
