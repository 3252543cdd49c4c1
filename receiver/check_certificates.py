"""Looks at a listener's certificates for `logdrive receiver check`: can they be read, are they
valid, and for how long.
"""

from datetime import UTC, datetime

from cryptography import x509

from logdrive.check import Finding
from logdrive.errors import os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.net.certificate_ends import find_end
from logdrive.net.identity import certificate_names
from logdrive.net.listener_certificates import read_certificates
from logdrive.net.pem_files import read_pem
from logdrive.net.settings import ServerTlsConfig


def check_certificates(name: str, tls: ServerTlsConfig, clock: Clock, disk: Disk) -> list[Finding]:
    """Return the findings on the files of the table *name*: one on the certificate, and what is
    wrong with key and CA.

    Whether key and certificate match is found when the address is bound.
    """
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    times = {
        one.key: finding
        for one in read_certificates(tls, disk)
        if (finding := find_end(f"{name}.tls.{one.key}", one.path, one.validity, now)) is not None
    }
    others = [
        Finding(f"{name}.tls.{key}", False, f"{path} can't be read: {os_error_text(error)}")
        for key, path in (("key", tls.key), ("ca", tls.ca))
        if path is not None and (error := _unreadable(path, disk)) is not None
    ]
    if "ca" in times:
        others.append(times["ca"])
    return [times.get("cert") or _certificate(name, tls, disk), *others]


def _unreadable(path: str, disk: Disk) -> OSError | None:
    try:
        disk.open(path).close()
    except OSError as error:
        return error
    return None


def _certificate(name: str, tls: ServerTlsConfig, disk: Disk) -> Finding:
    key = f"{name}.tls.cert"
    try:
        certificate = x509.load_pem_x509_certificate(read_pem(tls.cert, disk))
    except OSError as error:
        return Finding(key, False, f"{tls.cert} can't be read: {os_error_text(error)}")
    except ValueError as error:
        return Finding(key, False, f"{tls.cert} is no PEM certificate: {error}")
    clients = (
        "clients need a certificate"
        if tls.clients == "certificate"
        else "clients need no certificate"
    )
    return Finding(
        key,
        True,
        f"speaks for {', '.join(certificate_names(certificate)) or 'no name'} until "
        f"{certificate.not_valid_after_utc:%Y-%m-%d}; {clients}",
    )
