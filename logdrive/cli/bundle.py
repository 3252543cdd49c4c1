"""Enrollment bundle: CA certificate, client certificate and client key in one PEM file."""

import os
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from logdrive.host.disk import SystemDisk, write_atomically
from logdrive.net.identity import identity_of

_MAX_BUNDLE_BYTES: Final = 65_536  # two certificates and a key take about 2,000
_PEM_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z ]+)-----\n.*?\n-----END \1-----\n", re.DOTALL)
_REMEDY: Final = "make it with `logdrive certs DIR --client NAME --bundle FILE` beside the CA"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What an agent needs for mutual TLS. All three parts are PEM."""

    ca: bytes
    """Certificate of the CA that signed the receiver's certificate."""
    certificate: bytes
    """Client certificate."""
    key: bytes
    """Private key of the client certificate, without a passphrase."""
    identity: str
    """Client identity that the receiver derives from the certificate (rule D6)."""


def write_bundle(path: str, ca: str, certificate: str, key: str) -> None:
    """Join the files *ca*, *certificate* and *key* into *path*, readable by its owner only.

    Raises OSError, and then leaves nothing new at *path*.
    """
    parts = []
    for name in (ca, certificate, key):
        with open(name, "rb") as file:
            parts.append(file.read(_MAX_BUNDLE_BYTES))
    write_atomically(SystemDisk(), os.path.abspath(path), b"".join(parts), private=True)


def read_bundle(path: str, now: datetime) -> Bundle:
    """Return the bundle that `write_bundle` wrote to *path*.

    Raises ValueError with cause and remedy if the file is no bundle, is damaged, or its client
    certificate has expired at *now*; OSError if the file can't be read.
    """
    with open(path, "rb") as file:
        data = file.read(_MAX_BUNDLE_BYTES + 1)
    blocks = [(match[1], match[0]) for match in _PEM_BLOCK.finditer(data.replace(b"\r\n", b"\n"))]
    kinds = [kind for kind, _ in blocks]
    # compared in order: the first certificate would be trusted as the CA
    if kinds != [b"CERTIFICATE", b"CERTIFICATE", b"PRIVATE KEY"] or len(data) > _MAX_BUNDLE_BYTES:
        raise ValueError(
            f"{path} does not hold a CA, a certificate and a key, in this order: {_REMEDY}"
        )
    ca, certificate, key = (pem for _, pem in blocks)
    client = _check_parts(path, ca, certificate, key)
    if client.not_valid_after_utc < now:
        raise ValueError(f"{path} expired on {client.not_valid_after_utc:%Y-%m-%d}: {_REMEDY}")
    return Bundle(ca, certificate, key, identity_of(client))


def _check_parts(path: str, ca: bytes, certificate: bytes, key: bytes) -> x509.Certificate:
    """Return the client certificate if the CA signed it and the key is its own.

    Raises ValueError otherwise; *path* is for the message.
    """
    try:
        signer, client = (x509.load_pem_x509_certificate(pem) for pem in (ca, certificate))
        client.verify_directly_issued_by(signer)
        public = serialization.load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        # TypeError: the key has a passphrase, or the issuer's key can't sign
        raise ValueError(
            f"{path} is damaged, or its CA did not sign its certificate: {_REMEDY}"
        ) from error
    if public != client.public_key():
        raise ValueError(f"the key in {path} does not belong to its certificate: {_REMEDY}")
    return client
