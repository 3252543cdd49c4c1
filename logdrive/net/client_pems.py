"""What a client's PEM files hold: whether they fit together, and until when they are valid."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization


@dataclass(frozen=True, slots=True)
class Validity:
    """How long a certificate is valid."""

    begins: datetime
    ends: datetime

    @property
    def lifetime(self) -> timedelta:
        """How long it is valid altogether."""
        return self.ends - self.begins


def check_ca_pem(pem: bytes) -> Validity:
    """Return how long the CA certificates in *pem* are valid: the last of them to end.

    Raises ValueError if *pem* is no PEM with certificates.
    """
    return max((_validity(each) for each in _certificates(pem)), key=lambda valid: valid.ends)


def check_client_pem(certificate_pem: bytes, key_pem: bytes) -> Validity:
    """Return how long our certificate, the first in *certificate_pem*, is valid.

    Raises ValueError if there is none, or if *key_pem* is not its private key.
    """
    certificate = _certificates(certificate_pem)[0]
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    # TypeError: the key has a passphrase
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError("the key has a passphrase, or is of an unknown kind") from error
    if key.public_key() != certificate.public_key():
        raise ValueError("the key is not that of the certificate")
    return _validity(certificate)


def _certificates(pem: bytes) -> list[x509.Certificate]:
    certificates = x509.load_pem_x509_certificates(pem)
    if not certificates:
        raise ValueError("there is no certificate")
    return certificates


def _validity(certificate: x509.Certificate) -> Validity:
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)
