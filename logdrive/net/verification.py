"""Verification of a peer's certificate, with the reason and the remedy for an operator.

OpenSSL's error says only that a verification failed. The callback here keeps the reason on the
connection's `Handshake`. It also checks that the certificate is valid for the expected name: here,
so that the peer gets the refusal as an alert.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from OpenSSL import SSL, crypto

from logdrive.net.identity import certificate_names, has_name

_CODES: Final = SSL.X509VerificationCodes
_UNKNOWN_CA: Final = (
    "the CA given here did not sign it: give the CA that did (key ca), or the peer a "
    "certificate signed by this one"
)
_REASONS: Final = {
    _CODES.ERR_CERT_HAS_EXPIRED: ("certificate has expired", "renew it"),
    _CODES.ERR_CERT_NOT_YET_VALID: ("certificate is not yet valid", "compare both hosts' clocks"),
    _CODES.ERR_UNABLE_TO_GET_ISSUER_CERT: ("unable to get issuer certificate", _UNKNOWN_CA),
    _CODES.ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY: (
        "unable to get local issuer certificate",
        _UNKNOWN_CA,
    ),
    _CODES.ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: (
        "unable to verify the first certificate",
        _UNKNOWN_CA,
    ),
    _CODES.ERR_SELF_SIGNED_CERT_IN_CHAIN: (
        "self-signed certificate in certificate chain",
        _UNKNOWN_CA,
    ),
    _CODES.ERR_DEPTH_ZERO_SELF_SIGNED_CERT: (
        "self-signed certificate",
        "name it as the CA (key ca) if it is to be trusted",
    ),
    _CODES.ERR_CERT_SIGNATURE_FAILURE: ("certificate signature failure", _UNKNOWN_CA),
    _CODES.ERR_INVALID_CA: ("invalid CA certificate", "the signing certificate lacks CA:TRUE"),
    _CODES.ERR_INVALID_PURPOSE: (
        "unsuitable certificate purpose",
        "its extended key usage must allow this side of TLS",
    ),
}


@dataclass(slots=True)
class Handshake:
    """State of one connection's verification."""

    expected: str | None = None  # name or address that the peer's certificate must be valid for
    refusal: str | None = None  # why the certificate is refused


def verify_certificate(
    connection: SSL.Connection, certificate: crypto.X509, code: int, depth: int, ok: int
) -> bool:
    """Return whether a certificate of the peer's chain is accepted (OpenSSL's verify callback)."""
    handshake = connection.get_app_data()
    assert isinstance(handshake, Handshake)
    # the first reason counts: what follows from it only confuses
    if not ok:
        handshake.refusal = handshake.refusal or _chain_refusal(certificate.to_cryptography(), code)
    elif depth == 0 and handshake.expected is not None:
        handshake.refusal = name_refusal(certificate.to_cryptography(), handshake.expected)
    return handshake.refusal is None


def is_address(name: str) -> bool:
    """Return whether *name* is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _chain_refusal(certificate: x509.Certificate, code: int) -> str:
    reason, remedy = _REASONS.get(code, (_name_of(code), "see X509_verify_cert_error_string(3)"))
    detail = (
        f", on {certificate.not_valid_after_utc:%Y-%m-%d}"
        if code == _CODES.ERR_CERT_HAS_EXPIRED
        else ""
    )
    return f"{reason}{detail} ({certificate.subject.rfc4514_string() or 'no subject'}): {remedy}"


def _name_of(code: int) -> str:
    names = (
        name for name, value in vars(_CODES).items() if name.startswith("ERR_") and value == code
    )
    return next(names, f"ERR_{code}").removeprefix("ERR_").replace("_", " ").lower()


def name_refusal(certificate: x509.Certificate, expected: str) -> str | None:
    """Return why a certificate is refused by a client that expects the name or address *expected*.

    None if it is not. Wildcards and names of other scripts are as RFC 6125 says.
    """
    if has_name(certificate, expected, address=is_address(expected)) or _speaks_for(
        certificate, expected
    ):
        return None
    names = ", ".join(certificate_names(certificate)) or "no name at all"
    return (
        f"hostname mismatch: it speaks for {names}, not for {expected}: connect by such a "
        "name, set server_name, or renew it"
    )


def _speaks_for(certificate: x509.Certificate, expected: str) -> bool:
    """Return whether a certificate is valid for a name by any rule: by a wildcard, say."""
    # not sooner: it takes 2 MiB, and most certificates have the very name
    import service_identity.cryptography

    check = (
        service_identity.cryptography.verify_certificate_ip_address
        if is_address(expected)
        else service_identity.cryptography.verify_certificate_hostname
    )
    try:
        check(certificate, expected)
    except (service_identity.VerificationError, service_identity.CertificateError, ValueError):
        return False
    return True
