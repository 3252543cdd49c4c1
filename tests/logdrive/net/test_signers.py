"""Certificates sent along with a client's own: those that the peer needs to verify it, without the
root, which it has.
"""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import SSL

from logdrive.net.certificates import Issued, issue_certificate
from logdrive.net.tls import client_connection, client_context, server_connection, server_context
from tests.support.pki import NOW, Pki


def authority(name: str, signer: Issued | None) -> Issued:
    """Return a CA that may sign others; a root without *signer*."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW.replace(year=NOW.year - 1, day=1))
        .not_valid_after(NOW.replace(year=NOW.year + 1, day=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    return Issued(builder.sign(signer.key if signer else key, hashes.SHA256()), key)


def received(pki: Pki, *, ca: str, cert: str) -> list[str]:
    """Shake hands with a server that knows only the root; return the names of the certificates
    sent.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = server_connection(server_context(pki.server()), ours)
        client = client_connection(
            client_context(replace(pki.client(cert), ca=pki.path(ca))), theirs, "localhost"
        )
        for end in (ours, theirs):
            end.setblocking(False)
        for _ in range(10):
            for side in (client, server):
                try:
                    side.do_handshake()
                except SSL.WantReadError:
                    continue
        certificate = server.get_peer_certificate(as_cryptography=True)
        chain = [certificate, *(server.get_peer_cert_chain(as_cryptography=True) or [])]
    return [
        str(each.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        for each in chain
        if each
    ]


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """A root in `ca.pem`; `signed.*` by the lower of two CAs below it, all three in `all.pem`."""
    root = authority("root", None)
    upper = authority("upper", root)
    lower = authority("lower", upper)
    pki = Pki(Path(tmp_path_factory.mktemp("chained")), root)
    (pki.directory / "ca.pem").write_bytes(root.certificate_pem)
    pems = [lower.certificate_pem, root.certificate_pem, upper.certificate_pem]
    (pki.directory / "all.pem").write_bytes(b"".join(pems))
    pki.add("server", ["localhost"], server=True)
    pki.add("client", ["client.example"])
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    made = issue_certificate(lower, "signed", ["signed"], usage=usage, now=NOW, days=5)
    (pki.directory / "signed.pem").write_bytes(made.certificate_pem)
    (pki.directory / "signed.key").write_bytes(made.key_pem)
    whole = made.certificate_pem + lower.certificate_pem + upper.certificate_pem
    (pki.directory / "whole.pem").write_bytes(whole)
    (pki.directory / "whole.key").write_bytes(made.key_pem)
    return pki


def test_the_root_is_not_sent(pki: Pki) -> None:
    assert received(pki, ca="ca.pem", cert="client") == ["client.example"]


def test_signers_among_the_trusted_certificates_are_sent(chained: Pki) -> None:
    assert received(chained, ca="all.pem", cert="signed") == ["signed", "lower", "upper"]


def test_signers_beside_the_certificate_are_sent_in_their_order(chained: Pki) -> None:
    assert received(chained, ca="all.pem", cert="whole") == ["signed", "lower", "upper"]
    assert received(chained, ca="ca.pem", cert="whole") == ["signed", "lower", "upper"]


def test_trusted_files_that_only_openssl_can_read_are_taken_as_before(pki: Pki) -> None:
    odd = b"-----BEGIN TRUSTED CERTIFICATE-----"
    pem = (pki.directory / "ca.pem").read_bytes()
    text = pem.replace(b"-----BEGIN CERTIFICATE-----", odd)
    text = text.replace(b"-----END CERTIFICATE-----", odd.replace(b"BEGIN", b"END"))
    (pki.directory / "odd.pem").write_bytes(text)
    assert received(pki, ca="odd.pem", cert="client") == ["client.example"]
