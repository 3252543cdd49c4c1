"""`logdrive certs`: a small CA and certificates for trying things out."""

import os
import socket
from datetime import UTC, datetime

import click

from logdrive.clock import SystemClock
from logdrive.net.certificates import write_certificates

_ALWAYS = ("localhost", "127.0.0.1", "::1")
_ADVICE = """\
Made in {directory}, valid for {days} days:

  on the receiver   ca.pem server.pem server.key     [listen.tls] ca, cert, key
  on each agent     ca.pem client.pem client.key     [output.tls] ca, cert, key
  kept away         ca.key                           whoever has it can make certificates that both sides trust

The server's certificate speaks for {names}.
The client's identity is {identity}. Agents that share it share one identity too: give each host its own in earnest.
"""


@click.command("certs", epilog="Example: logdrive certs /etc/logdrive/tls --name logs.example.com --name 192.0.2.7")
@click.argument("directory", type=click.Path(file_okay=False))
@click.option("--name", "names", multiple=True, metavar="HOST", help="A name or address the server is reached by; may be repeated.")
@click.option("--client", default="", metavar="NAME", help="The client's own DNS name or URI; else this host's name.")
@click.option("--days", type=click.IntRange(1, 36_500), default=825, show_default=True, help="How long they are valid.")
@click.option("--force", is_flag=True, help="Replace what is there; what the old CA signed is worth nothing then.")
def certs(directory: str, names: tuple[str, ...], client: str, days: int, force: bool) -> None:
    """Make a small CA, a server's and a client's certificate in DIRECTORY.

    The server's certificate speaks for localhost, 127.0.0.1, ::1, this host's name, and each --name.
    """
    host = socket.gethostname()
    spoken_for = list(dict.fromkeys([*names, *_ALWAYS, host]))
    client = client or host
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    try:
        write_certificates(directory, spoken_for, client=client, days=days, now=now, force=force)
    except FileExistsError as error:
        raise click.UsageError(
            f"{error.args[0]} is there already: choose another directory, or replace all of them with --force"
        ) from error
    except ValueError as error:
        raise click.UsageError(f"a certificate can't speak for that name: {error}") from error
    except OSError as error:
        raise click.ClickException(f"{directory}: {(error.strerror or str(error)).lower()}") from error
    identity = f"uri:{client}" if "://" in client else f"dns:{client}"
    shown = os.path.abspath(directory)
    click.echo(_ADVICE.format(directory=shown, days=days, names=", ".join(spoken_for), identity=identity), nl=False)
