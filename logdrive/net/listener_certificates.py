"""The certificates of a program that listens: until when they are valid, and a warning before."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.net.certificate_ends import ends_soon, warn_of_end
from logdrive.net.pem_files import Validity, check_ca_pem, check_cert_pem, read_pem
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
    """Warn of certificates that end soon, or have ended, at once and then once a day."""
    while True:
        now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        found = {
            one.path: one.validity for table in tables for one in read_certificates(table, disk)
        }
        for path, validity in found.items():
            if ends_soon(validity, now):
                remedy = "renew it: files that change are taken with the next connection"
                warn_of_end(path, validity, now, remedy=remedy, log=log)
        await clock.sleep(_SECONDS)
