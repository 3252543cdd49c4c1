"""Shared TLS and login options of commands that connect to a streaming service."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from logdrive.host.transport import ClientTls
from logdrive.services.pravega.client.controller import Login

_PASSWORD_VARIABLE = "LOGDRIVE_PASSWORD"  # noqa: S105 - a variable's name, no password
_MAX_PASSWORD_FILE_BYTES = 4096
_FILE = click.Path(exists=True, dir_okay=False)


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """TLS settings and login that the user gave; None where he gave none."""

    tls: ClientTls | None
    login: Login | None


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the TLS and login options to *command*, which receives them as `access`."""

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
            *args,
            access=AccessOptions(_tls_from_options(ca, cert, key, server_name), login),
            **others,
        )

    return _add_options(
        login_options(_copy_click_metadata(command, given)),
        click.option(
            "--ca",
            type=_FILE,
            help="PEM file with the CA of the service's certificate. Turns on TLS.",
        ),
        click.option("--cert", type=_FILE, help="PEM file with your client certificate."),
        click.option("--key", type=_FILE, help="PEM file with its private key."),
        click.option(
            "--server-name",
            metavar="NAME",
            help="Name to expect in the service's certificate, if it is not the host in the URI.",
        ),
    )


def login_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the login options to *command*, which receives them as `login`."""

    def given(*args: Any, user: str | None, password_file: str | None, **others: Any) -> Any:
        return command(*args, login=_login_from_options(user, password_file), **others)

    return _add_options(
        _copy_click_metadata(command, given),
        click.option(
            "--user",
            metavar="NAME",
            envvar="LOGDRIVE_USER",
            show_envvar=True,
            help="User name, if the controller asks for one.",
        ),
        click.option(
            "--password-file",
            type=_FILE,
            envvar="LOGDRIVE_PASSWORD_FILE",
            show_envvar=True,
            help=f"File with the password; default: the value of ${_PASSWORD_VARIABLE}.",
        ),
    )


def _copy_click_metadata(
    command: Callable[..., Any], given: Callable[..., Any]
) -> Callable[..., Any]:
    """Return *given* with the name, help text and options of *command*."""
    given.__name__, given.__doc__ = command.__name__, command.__doc__
    given.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined] # where click gathers them
    return given


def _add_options(
    command: Callable[..., Any], *options: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    # click lists options in the opposite order of their decorators
    for option in reversed(options):
        command = option(command)
    return command


def _tls_from_options(
    ca: str | None, cert: str | None, key: str | None, server_name: str | None
) -> ClientTls | None:
    if (cert is None) != (key is None) or (cert is not None and ca is None):
        raise click.UsageError("give --cert and --key together, and only with --ca")
    if server_name is not None and ca is None:
        raise click.UsageError("--server-name needs --ca")
    return ClientTls(ca=ca, cert=cert, key=key, server_name=server_name) if ca is not None else None


def _login_from_options(user: str | None, password_file: str | None) -> Login | None:
    if user is None:  # a password in the environment may be for other commands
        if password_file is not None:
            raise click.UsageError("--password-file needs --user")
        return None
    if password_file is not None:
        return Login(user, read_password(password_file))
    if (password := os.environ.get(_PASSWORD_VARIABLE)) is None:
        raise click.UsageError(
            f"--user needs --password-file, or a password in the variable {_PASSWORD_VARIABLE}"
        )
    return Login(user, password)


def read_password(path: str) -> str:
    """Return the password in the file at *path*, its only line.

    Raises `click.UsageError` if the file has more or fewer lines, is empty or is not UTF-8.
    """
    with open(path, "rb") as file:
        text = file.read(_MAX_PASSWORD_FILE_BYTES + 1)
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError:
        lines = []
    # more lines are another kind of file, such as a key: never send it as a password
    if len(text) > _MAX_PASSWORD_FILE_BYTES or len(lines) != 1 or not lines[0]:
        raise click.UsageError(f"{path} must have exactly one line, the password in UTF-8")
    return lines[0]
