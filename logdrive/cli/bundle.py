"""An agent's certificates in one file: the CA's, the client's, and the client's key, in PEM."""

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

_MOST_BYTES: Final = 65_536  # two certificates and a key take some 2,000
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z ]+)-----\n.*?\n-----END \1-----\n", re.DOTALL)
_REMEDY: Final = "make it with `logdrive certs DIR --client NAME --bundle FILE` beside the CA"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What an agent needs for mutual TLS. All three parts are PEM."""

    ca: bytes
    """The certificate of the CA that signed the receiver's."""
    certificate: bytes
    """The client's."""
    key: bytes
    """The client's, without a passphrase."""
    identity: str
    """Who the receiver will say the client is (rule D6)."""


def write_bundle(path: str, ca: str, certificate: str, key: str) -> None:
    """Put the files *ca*, *certificate* and *key* into one at *path*, readable by its owner only.

    Raises OSError, having left nothing new at *path*.
    """
    parts = []
    for name in (ca, certificate, key):
        with open(name, "rb") as file:
            parts.append(file.read(_MOST_BYTES))
    write_atomically(SystemDisk(), os.path.abspath(path), b"".join(parts), private=True)


def read_bundle(path: str, now: datetime) -> Bundle:
    """Return what `write_bundle` put into *path*.

    Raises ValueError saying what is wrong and what to do, also where a certificate has ended by
    *now*, and OSError where the file can't be read.
    """
    with open(path, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    blocks = [(match[1], match[0]) for match in _BLOCK.finditer(data.replace(b"\r\n", b"\n"))]
    kinds = [kind for kind, _ in blocks]
    if kinds != [b"CERTIFICATE", b"CERTIFICATE", b"PRIVATE KEY"] or len(data) > _MOST_BYTES:
        raise ValueError(f"{path} has no CA, certificate and key, in this order: {_REMEDY}")
    ca, certificate, key = (pem for _, pem in blocks)
    client = _fitting(path, ca, certificate, key)
    if client.not_valid_after_utc < now:
        raise ValueError(f"{path} ended on {client.not_valid_after_utc:%Y-%m-%d}: {_REMEDY}")
    return Bundle(ca, certificate, key, identity_of(client))


def _fitting(path: str, ca: bytes, certificate: bytes, key: bytes) -> x509.Certificate:
    """Return the client's certificate, which the CA signed and the key belongs to."""
    try:
        signer, client = (x509.load_pem_x509_certificate(pem) for pem in (ca, certificate))
        client.verify_directly_issued_by(signer)
        public = serialization.load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        # TypeError: the key has a passphrase, or the issuer's key is of a kind that signs nothing
        raise ValueError(f"{path} is damaged, or its CA did not sign it: {_REMEDY}") from error
    if public != client.public_key():
        raise ValueError(f"{path} has a key of another certificate: {_REMEDY}")
    return client
