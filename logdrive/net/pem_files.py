"""What PEM files hold: whether they fit together, and until when they are valid."""

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from logdrive.host.disk import Disk
from logdrive.model.units import MIB

_PEM_BYTES: Final = 4 * MIB
"""Limit on a file: a bundle of all public CAs has a quarter of a MiB."""

CA_DEMAND: Final = "it must hold the CA's certificate in PEM form"
CERT_DEMAND: Final = "it must hold the certificate, then those that signed it, in PEM form"
KEY_DEMAND: Final = "it must hold the certificate's private key in PEM form, without a passphrase"
"""What is said of a file that is something else: the library's own words end in a link."""


@dataclass(frozen=True, slots=True)
class Validity:
    """How long a certificate is valid."""

    begins: datetime
    ends: datetime

    @property
    def lifetime(self) -> timedelta:
        """How long it is valid altogether."""
        return self.ends - self.begins


def read_pem(path: str, disk: Disk) -> bytes:
    """Return what the file at *path* holds. Raises OSError."""
    with closing(disk.open(path)) as file:
        return file.pread(_PEM_BYTES, 0)


def check_ca_pem(pem: bytes) -> Validity:
    """Return how long the CA certificates in *pem* are valid: the last of them to end.

    Raises ValueError if *pem* is no PEM with certificates.
    """
    authorities = _certificates(pem, CA_DEMAND)
    return max((_validity(each) for each in authorities), key=lambda valid: valid.ends)


def check_cert_pem(pem: bytes) -> Validity:
    """Return how long our certificate, the first in *pem*, is valid.

    Raises ValueError if *pem* is no PEM with certificates.
    """
    return _validity(_certificates(pem, CERT_DEMAND)[0])


def check_key_pem(pem: bytes, certificate_pem: bytes) -> None:
    """Raise ValueError if *pem* is not the private key of the first certificate in the other."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    # TypeError: the key has a passphrase
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(KEY_DEMAND) from error
    if key.public_key() != _certificates(certificate_pem, CERT_DEMAND)[0].public_key():
        raise ValueError("it is not the private key of the certificate")


def _certificates(pem: bytes, demand: str) -> list[x509.Certificate]:
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ValueError(demand) from error
    if not certificates:
        raise ValueError(demand)
    return certificates


def _validity(certificate: x509.Certificate) -> Validity:
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)
