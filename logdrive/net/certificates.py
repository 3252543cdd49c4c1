"""A small certificate authority (EC P-256): makes one CA, a server's and clients' certificates."""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FILES: Final = ("ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key")
"""The files that `write_certificates` makes in one directory."""

_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")  # in file names
# certificates are valid from this long ago, for hosts whose clocks are behind
_SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey  # its private key

    @property
    def certificate_pem(self) -> bytes:
        """The certificate in PEM form."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as PKCS#8 in PEM form, without a passphrase."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def write_certificates(
    directory: str,
    names: Sequence[str],
    *,
    client: str,
    days: int,
    now: datetime,
    force: bool = False,
    more_clients: Sequence[str] = (),
) -> list[str]:
    """Make a CA, a server's and a client's certificate in *directory*; return the paths.

    *names* are the DNS names and addresses that the server's certificate is valid for, *client* is
    the client's identity; *more_clients* get files of their own names, as in `add_clients`. Keys
    can be read by their owner only. Raises FileExistsError with the first file that exists, unless
    *force*.
    """
    os.makedirs(directory, exist_ok=True)
    paths = [os.path.join(directory, name) for name in FILES]
    added = _client_paths(directory, more_clients)
    if not force and (present := [path for path in paths + added if os.path.lexists(path)]):
        raise FileExistsError(present[0])

    authority = issue_authority("logdrive CA", now=now, days=days)
    server = issue_certificate(
        authority, names[0], names, usage=ExtendedKeyUsageOID.SERVER_AUTH, now=now, days=days
    )
    clients = [_client(authority, name, now=now, days=days) for name in (client, *more_clients)]
    # the CA last: where it is, all others are
    first, *others = [*paths[::2], *added[::2]]
    for path, issued in zip([*others, first], (server, *clients, authority), strict=True):
        _write_both(path, issued)
    return paths + added


def add_clients(directory: str, clients: Sequence[str], *, days: int, now: datetime) -> list[str]:
    """Make a certificate for each of *clients* with the CA in *directory*, in files of its name;
    return the paths.

    Raises OSError if the CA can't be read, ValueError if it can't be used, and FileExistsError if a
    client's file exists.
    """
    paths = _client_paths(directory, clients)
    if present := [path for path in paths if os.path.lexists(path)]:
        raise FileExistsError(present[0])

    authority = _authority_in(directory)
    if authority.certificate.not_valid_after_utc < now:
        raise ValueError(
            f"the CA in {directory} ended on "
            f"{authority.certificate.not_valid_after_utc:%Y-%m-%d}: make a new one"
        )

    certificates = [_client(authority, name, now=now, days=days) for name in clients]
    for path, issued in zip(paths[::2], certificates, strict=True):
        _write_both(path, issued)
    return paths


def _authority_in(directory: str) -> Issued:
    certificate_path, key_path = (os.path.join(directory, name) for name in FILES[:2])
    with open(certificate_path, "rb") as certificate_file, open(key_path, "rb") as key_file:
        certificate_pem, key_pem = certificate_file.read(), key_file.read()
    try:
        certificate, key = (
            x509.load_pem_x509_certificate(certificate_pem),
            serialization.load_pem_private_key(key_pem, None),
        )
    # TypeError: the key has a passphrase
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(
            f"{certificate_path} and {key_path} must hold a CA and its key, in PEM form, "
            "without a passphrase"
        ) from error

    if (
        not isinstance(key, ec.EllipticCurvePrivateKey)
        or key.public_key() != certificate.public_key()
    ):
        raise ValueError(
            f"{key_path} is not the key of {certificate_path}, or of another kind than "
            "`logdrive certs` makes"
        )
    return Issued(certificate, key)


def _client(authority: Issued, name: str, *, now: datetime, days: int) -> Issued:
    return issue_certificate(
        authority, name, [name], usage=ExtendedKeyUsageOID.CLIENT_AUTH, now=now, days=days
    )


def _client_paths(directory: str, clients: Sequence[str]) -> list[str]:
    """Return the paths of each client's certificate and key.

    Raises ValueError for names that give no file name, or the same one twice.
    """
    stems = [_UNFIT.sub("-", name).strip("-.") for name in clients]
    for stem, name in zip(stems, clients, strict=True):
        if not stem or f"{stem}.pem" in FILES or stems.count(stem) > 1:
            raise ValueError(f"{name!r} makes no file name of its own")
    return [os.path.join(directory, f"{stem}.{kind}") for stem in stems for kind in ("pem", "key")]


def _write_both(path: str, issued: Issued) -> None:
    _write(f"{path.removesuffix('.pem')}.key", issued.key_pem, 0o600)
    _write(path, issued.certificate_pem, 0o644)  # where it is, its key is


def issue_authority(name: str, *, now: datetime, days: int) -> Issued:
    """Return a new CA, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, name, key, now - _SKEW, now + timedelta(days=days))
    # certificates and revocation lists
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    ).add_extension(usage, critical=True)
    return Issued(builder.sign(key, hashes.SHA256()), key)


def issue_certificate(
    authority: Issued,
    name: str,
    names: Sequence[str],
    *,
    usage: x509.ObjectIdentifier,
    now: datetime,
    days: int,
) -> Issued:
    """Return a new certificate signed by *authority*, valid no longer than the CA's own.

    Of *names*, those with "://" become URI names, addresses IP names, and others DNS names.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.certificate
    issuer = signer.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    end = min(now + timedelta(days=days), signer.not_valid_after_utc)

    builder = (
        _builder(name, str(issuer), key, now - _SKEW, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(True, False, False, False, False, False, False, False, False),
            critical=True,
        )
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(text) for text in names]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    return Issued(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    name: str, issuer: str, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
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
    # X.520 ends a common name at 64
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general_name(name: str) -> x509.GeneralName:
    # such as spiffe://…
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name if name.isascii() else name.encode("idna").decode("ascii"))


def _write(path: str, data: bytes, mode: int) -> None:
    """Replace *path* by a file that had the rights *mode* from the beginning."""
    temporary = f"{path}.new"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
