"""The client identity in a certificate (rule D6), and the names that a certificate is valid for."""

from cryptography import x509
from cryptography.x509.oid import NameOID


def identity_of(certificate: x509.Certificate | None) -> str:
    """Return `uri:`, `dns:` or `cn:` followed by a name; "" without a certificate or a name.

    URI names go before DNS names, DNS names before common names; among several the smallest in byte
    order is taken. So a certificate renewed with its names in another order has the same identity.
    """
    if certificate is None:
        return ""
    names = _alternative_names(certificate)
    if names is not None:
        for prefix, kind in (("uri", x509.UniformResourceIdentifier), ("dns", x509.DNSName)):
            if values := names.get_values_for_type(kind):
                return f"{prefix}:{min(values, key=_as_bytes)}"

    common = [
        str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    return f"cn:{min(common, key=_as_bytes)}" if common else ""


def certificate_names(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names and addresses that the certificate is valid for, in its own order."""
    names = _alternative_names(certificate)
    if names is None:
        return []
    return [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]


def has_name(certificate: x509.Certificate, name: str, *, address: bool) -> bool:
    """Return whether *name*, letter by letter, is among the names that the certificate is valid
    for: among its addresses, or else among its DNS names.
    """
    kind = x509.IPAddress if address else x509.DNSName
    names = _alternative_names(certificate) or ()
    return any(str(other.value) == name for other in names if isinstance(other, kind))


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    # ValueError: names that are not well formed count as none
    except (x509.ExtensionNotFound, ValueError):
        return None


def _as_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
