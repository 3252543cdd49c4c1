"""The certificates of a program that listens: until when they are valid, and a warning before.

They are read when it starts, so a renewed one needs a restart.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.net.pem_files import Validity, check_ca_pem, check_cert_pem, ends_soon, read_pem
from logdrive.net.settings import ServerTlsConfig

_SECONDS: Final = 86_400.0
"""Seconds between two warnings of one file."""


class ListenerCertificate(NamedTuple):
    """A file with certificates."""

    key: str  # of the table that names it: "cert" or "ca"
    path: str
    validity: Validity  # of our certificate; of a CA's file, of the last to end


def read_certificates(table: ServerTlsConfig, disk: Disk) -> Iterator[ListenerCertificate]:
    """Yield what the files of *table* say. Files that can't be used are left out."""
    checks = (("cert", table.cert, check_cert_pem), ("ca", table.ca, check_ca_pem))
    for key, path, check in checks:
        if path is None:
            continue
        try:
            yield ListenerCertificate(key, path, check(read_pem(path, disk)))
        except (OSError, ValueError):
            continue  # to listen with it fails, and says why


async def warn_of_ends(
    tables: Sequence[ServerTlsConfig], *, disk: Disk, clock: Clock, log: Any
) -> None:
    """Warn of certificates that end soon, or have ended, at once and then once a day.

    It is about those that are there when this is called, which are the ones in use.
    """
    used = _validities(tables, disk)
    while True:
        now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        ending = {path: used[path] for path in used if ends_soon(used[path], now)}
        there = _validities(tables, disk) if ending else {}
        for path, validity in ending.items():
            renewed = path in there and there[path].ends > validity.ends
            ended = validity.ends <= now
            log.warning(
                "a certificate has ended" if ended else "a certificate ends soon",
                file=path,
                ends=f"{validity.ends:%Y-%m-%d %H:%M} UTC",
                remedy="restart: the file was renewed since it was read"
                if renewed
                else "renew it, and restart: its file is read at the start",
            )
        await clock.sleep(_SECONDS)


def _validities(tables: Sequence[ServerTlsConfig], disk: Disk) -> dict[str, Validity]:
    """Return how long the certificates of *tables* are valid, by their files."""
    return {one.path: one.validity for table in tables for one in read_certificates(table, disk)}
