"""How commands come in where a service asks: certificates for TLS, user and password for a
controller. The same options everywhere.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from logdrive.net.stream import ClientTls
from logdrive.services.pravega.client.controller import Login

_PASSWORD_VARIABLE = "LOGDRIVE_PASSWORD"  # noqa: S105 - its name
_MOST_BYTES = 4096
_FILE = click.Path(exists=True, dir_okay=False)


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """What a command was given to come in with."""

    tls: ClientTls | None
    login: Login | None


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options for certificates and a login; the command takes what was made of them as
    `access`.
    """

    def given(
        *args: Any,
        ca: str | None,
        cert: str | None,
        key: str | None,
        server_name: str | None,
        login: Login | None,
        **others: Any,
    ) -> Any:
        return command(
            *args, access=AccessOptions(_tls(ca, cert, key, server_name), login), **others
        )

    return _with(
        login_options(_standing_for(command, given)),
        click.option(
            "--ca", type=_FILE, help="PEM file: the CA of the store's face, where it speaks TLS."
        ),
        click.option("--cert", type=_FILE, help="PEM file: your certificate."),
        click.option("--key", type=_FILE, help="PEM file: its private key."),
        click.option(
            "--server-name",
            metavar="NAME",
            help="The name in the face's certificate, where it is not the host in the URI.",
        ),
    )


def login_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options for a login alone; the command takes what was made of them as `login`."""

    def given(*args: Any, user: str | None, password_file: str | None, **others: Any) -> Any:
        return command(*args, login=_login(user, password_file), **others)

    return _with(
        _standing_for(command, given),
        click.option(
            "--user",
            metavar="NAME",
            envvar="LOGDRIVE_USER",
            show_envvar=True,
            help="Who you are to a controller that asks.",
        ),
        click.option(
            "--password-file",
            type=_FILE,
            envvar="LOGDRIVE_PASSWORD_FILE",
            show_envvar=True,
            help=f"File with your password. Without it: the variable {_PASSWORD_VARIABLE}.",
        ),
    )


def _standing_for(command: Callable[..., Any], given: Callable[..., Any]) -> Callable[..., Any]:
    """Return *given* with the name, the help and the options of *command*."""
    given.__name__, given.__doc__ = command.__name__, command.__doc__
    given.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined] # where click gathers them
    return given


def _with(
    command: Callable[..., Any], *options: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def _tls(
    ca: str | None, cert: str | None, key: str | None, server_name: str | None
) -> ClientTls | None:
    if (cert is None) != (key is None) or (cert is not None and ca is None):
        raise click.UsageError("--cert and --key go together, and with --ca")
    if server_name is not None and ca is None:
        raise click.UsageError("--server-name goes with --ca")
    return ClientTls(ca=ca, cert=cert, key=key, server_name=server_name) if ca is not None else None


def _login(user: str | None, password_file: str | None) -> Login | None:
    if user is None:
        if password_file is not None:
            raise click.UsageError("--password-file goes with --user")
        return None
    if password_file is not None:
        return Login(user, password_in(password_file))
    if (password := os.environ.get(_PASSWORD_VARIABLE)) is None:
        raise click.UsageError(
            f"--user goes with --password-file, or a password in the variable {_PASSWORD_VARIABLE}"
        )
    return Login(user, password)


def password_in(path: str) -> str:
    """Return the password in the file at *path*, which is its first and only line."""
    with open(path, "rb") as file:
        text = file.read(_MOST_BYTES + 1)
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError:
        lines = []
    if len(text) > _MOST_BYTES or len(lines) != 1 or not lines[0]:
        raise click.UsageError(f"{path}: one line is wanted, the password, in UTF-8")
    return lines[0]
