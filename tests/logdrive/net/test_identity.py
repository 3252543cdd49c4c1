"""The client identity in a certificate (rule D6)."""

import random
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from logdrive.net.identity import certificate_names, identity_of
from tests.support.pki import NOW


def certificate(names: list[str], common: list[str]) -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
    )
    made = made.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + timedelta(days=1))
    if names:
        kinds = [
            x509.UniformResourceIdentifier(n) if "://" in n else x509.DNSName(n) for n in names
        ]
        made = made.add_extension(x509.SubjectAlternativeName(kinds), critical=False)
    return made.sign(key, hashes.SHA256())


@pytest.mark.parametrize(
    ("names", "common", "identity"),
    [
        (["b.example", "spiffe://b", "a.example", "spiffe://a"], ["c"], "uri:spiffe://a"),
        # byte order: capitals first
        (["b.example", "a.example", "B.example"], ["c"], "dns:B.example"),
        (["host10", "host9"], [], "dns:host10"),
        ([], ["zoë", "zof"], "cn:zof"),
        ([], [], ""),
    ],
)
def test_d6_uri_names_before_dns_names_before_common_names_the_smallest_in_byte_order(
    names: list[str], common: list[str], identity: str
) -> None:
    assert identity_of(certificate(names, common)) == identity


def test_d6_history_21_certificate_renewed_with_its_names_in_another_order_same_identity() -> None:
    names = ["a.example", "b.example", "spiffe://mill/a", "spiffe://mill/b"]
    seen = set()
    for seed in range(5):
        random.Random(seed).shuffle(names)
        seen.add(identity_of(certificate(names, ["agent"])))
    assert seen == {"uri:spiffe://mill/a"}


def test_d6_without_a_certificate_the_identity_is_empty() -> None:
    assert identity_of(None) == ""


def test_the_names_that_a_certificate_speaks_for() -> None:
    assert certificate_names(certificate(["b.example", "spiffe://b", "a.example"], ["c"])) == [
        "b.example",
        "a.example",
    ]
    assert certificate_names(certificate([], ["c"])) == []
