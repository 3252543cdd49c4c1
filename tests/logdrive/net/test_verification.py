"""Which names a certificate is accepted for."""

import ipaddress
import subprocess
import sys
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from logdrive.net.verification import name_refusal
from tests.support.pki import NOW


def certificate(*names: str) -> x509.Certificate:
    """Return a certificate for *names*; those that begin with @ are addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([])
    kinds = [
        x509.IPAddress(ipaddress.ip_address(name[1:])) if name[0] == "@" else x509.DNSName(name)
        for name in names
    ]
    made = x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=subject,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=NOW,
        not_valid_after=NOW + timedelta(days=1),
    )
    if kinds:
        made = made.add_extension(x509.SubjectAlternativeName(kinds), critical=False)
    return made.sign(key, hashes.SHA256())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("b.example", "a.example"), "a.example"),
        (("A.Example",), "a.example"),
        (("*.example.org",), "a.example.org"),
        (("xn--zo-ija.example",), "zoë.example"),
        (("@127.0.0.1",), "127.0.0.1"),
        (("@::1",), "0:0:0:0:0:0:0:1"),
    ],
)
def test_a_certificate_is_accepted_for_the_names_it_has(
    names: tuple[str, ...], expected: str
) -> None:
    assert name_refusal(certificate(*names), expected) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("b.example",), "a.example"),
        (("*.example.org",), "a.b.example.org"),
        (("*.example.org",), "example.org"),
        (("a.example",), "a.example.org"),
        # an address that is written as a DNS name is none, and the reverse
        (("127.0.0.1",), "127.0.0.1"),
        (("@127.0.0.1",), "localhost"),
        (("@127.0.0.1",), "127.0.0.2"),
        ((), "a.example"),
    ],
)
def test_a_certificate_is_refused_for_any_other_name(names: tuple[str, ...], expected: str) -> None:
    refusal = name_refusal(certificate(*names), expected)
    assert refusal is not None
    assert f"not for {expected}" in refusal


def test_programs_start_without_the_library_for_other_names() -> None:
    code = "import sys, logdrive.cli.agent.command; print('service_identity' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
