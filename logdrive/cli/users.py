"""`logdrive store user`: print an entry for the users file that [listen.auth] names."""

import random
import sys
from typing import Final

import click

from logdrive.cli.access import read_password
from logdrive.services.auth import passwords
from logdrive.services.auth.permissions import Grants, Permission

_IGGY_NAME: Final = (3, 50)  # bytes that Iggy's own clients take, and check before they log in
_IGGY_PASSWORD: Final = (3, 100)


@click.command(
    short_help="Print a [[user]] table with a hash of the password.",
    epilog="Example: logdrive store user fleet --update 'logs/*' >> /etc/logdrive/users.toml",
)
@click.argument("name")
@click.option(
    "--read",
    multiple=True,
    metavar="PATTERN",
    help='Streams the user may read: scope/stream, with *, or "*". May be repeated.',
)
@click.option(
    "--update",
    multiple=True,
    metavar="PATTERN",
    help="Streams the user may read, append to, create and delete. May be repeated.",
)
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False),
    help="File with the password; without it you are asked.",
)
def user(
    name: str, read: tuple[str, ...], update: tuple[str, ...], password_file: str | None
) -> None:
    """Print a [[user]] table for NAME, with a hash of the password, never the password itself."""
    if not (read or update):
        raise click.UsageError(
            "give --read or --update: without them the user has no permission at all"
        )
    # a colon ends the name in a login; a quote or backslash would need escapes in the table
    if not name or ":" in name or not name.isprintable() or '"' in name or "\\" in name:
        raise click.UsageError(
            f"{name!r} is not a valid user name: use printable characters, but no colon, quote "
            "or backslash"
        )
    if not _IGGY_NAME[0] <= len(name.encode()) <= _IGGY_NAME[1]:
        least, most = _IGGY_NAME
        print(f"warning: clients of Iggy take names of {least} to {most} bytes", file=sys.stderr)
    grants = dict.fromkeys(read, Permission.READ) | dict.fromkeys(update, Permission.READ_UPDATE)
    try:
        Grants(grants)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if password_file is not None:
        password = read_password(password_file)
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not _IGGY_PASSWORD[0] <= len(password.encode()) <= _IGGY_PASSWORD[1]:
        least, most = _IGGY_PASSWORD
        print(
            f"warning: clients of Iggy take passwords of {least} to {most} bytes", file=sys.stderr
        )
    kept = passwords.hash_password(password, random.SystemRandom().randbytes(passwords.SALT_BYTES))
    may = ", ".join(f'"{pattern}" = "{permission.name}"' for pattern, permission in grants.items())
    print(f'\n[[user]]\nname = "{name}"\npassword = "{kept}"\nmay = {{ {may} }}')
