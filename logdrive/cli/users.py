"""`logdrive store user`: print an entry for the users file that [listen.auth] names."""

import random

import click

from logdrive.cli.access import read_password
from logdrive.services.auth import passwords
from logdrive.services.auth.permissions import Grants, Permission


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
    grants = dict.fromkeys(read, Permission.READ) | dict.fromkeys(update, Permission.READ_UPDATE)
    try:
        Grants(grants)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if password_file is not None:
        password = read_password(password_file)
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    kept = passwords.hash_password(password, random.SystemRandom().randbytes(passwords.SALT_BYTES))
    may = ", ".join(f'"{pattern}" = "{permission.name}"' for pattern, permission in grants.items())
    print(f'\n[[user]]\nname = "{name}"\npassword = "{kept}"\nmay = {{ {may} }}')
