"""A small certificate authority for trying things out: one CA, one server, one client, EC P-256."""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FILES: Final = ("ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key")
"""What `write_certificates` makes, in one directory."""

_SKEW: Final = timedelta(hours=1)  # hosts whose clocks are behind accept a fresh certificate all the same


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate in PEM form."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as PKCS#8 in PEM form, without a passphrase."""
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def write_certificates(directory: str, names: Sequence[str], *, client: str, days: int, now: datetime, force: bool = False) -> list[str]:
    """Make the CA and both certificates in *directory*; returns the paths. Keys are readable by their owner only.

    *names* are the DNS names and addresses that the server's certificate speaks for, *client* is the client's identity.
    Raises FileExistsError naming the first file that is there already, unless *force*.
    """
    os.makedirs(directory, exist_ok=True)
    paths = [os.path.join(directory, name) for name in FILES]
    if not force and (present := [path for path in paths if os.path.lexists(path)]):
        raise FileExistsError(present[0])
    authority = issue_authority("logdrive CA", now=now, days=days)
    server = issue(authority, names[0], names, usage=ExtendedKeyUsageOID.SERVER_AUTH, now=now, days=days)
    agent = issue(authority, client, [client], usage=ExtendedKeyUsageOID.CLIENT_AUTH, now=now, days=days)
    for path, issued in zip(paths[::2], (authority, server, agent), strict=True):
        _write(path, issued.certificate_pem, 0o644)
        _write(f"{path.removesuffix('.pem')}.key", issued.key_pem, 0o600)
    return paths


def issue_authority(name: str, *, now: datetime, days: int) -> Issued:
    """Make a CA that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, name, key, now - _SKEW, now + timedelta(days=days))
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)  # certificates and revocation lists
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).add_extension(usage, critical=True)
    return Issued(builder.sign(key, hashes.SHA256()), key)


def issue(authority: Issued, name: str, names: Sequence[str], *, usage: x509.ObjectIdentifier, now: datetime, days: int) -> Issued:
    """Make a certificate signed by *authority*; *names* with "://" become URI names, addresses IP names, others DNS names."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.certificate
    issuer = signer.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    # No certificate outlives the one that vouches for it.
    end = min(now + timedelta(days=days), signer.not_valid_after_utc)
    builder = (
        _builder(name, str(issuer), key, now - _SKEW, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(True, False, False, False, False, False, False, False, False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(each) for each in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    return Issued(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(name: str, issuer: str, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_distinguished(name))
        .issuer_name(_distinguished(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _distinguished(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])  # X.520 ends a common name at 64


def _general_name(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name if name.isascii() else name.encode("idna").decode("ascii"))


def _write(path: str, data: bytes, mode: int) -> None:
    """Replace *path* by a file that nobody could have opened with wider rights."""
    temporary = f"{path}.new"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
