"""Which certificates a client sends along with its own: those that signed it, without the root.

OpenSSL looks for them in the trusted ones by itself, where the file has only our certificate, and
sends the root, too. A server has the root or does not trust it, and keeps what it is sent, parsed
some 4 KiB, for as long as the connection lives. (What a server sends is left to OpenSSL: there are
clients that know the root by its fingerprint, and look for it in what they are sent.)
"""

from collections.abc import Iterator, Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm


def signers_to_send(cert: str, ca: str) -> list[x509.Certificate]:
    """Return what of the file *ca* is sent after the certificate in the file *cert*, in order.

    None are returned if *cert* has its signers beside it, which are then sent in their order, or if
    a file holds what only OpenSSL can read. Raises OSError.
    """
    try:
        ours, trusted = _certificates(cert), _certificates(ca)
        return list(_signers(ours[0], trusted)) if len(ours) == 1 else []
    except ValueError:
        return []


def _certificates(path: str) -> Sequence[x509.Certificate]:
    with open(path, "rb") as file:
        return x509.load_pem_x509_certificates(file.read())


def _signers(
    certificate: x509.Certificate, trusted: Sequence[x509.Certificate]
) -> Iterator[x509.Certificate]:
    """Yield the signer of *certificate*, that one's signer, and so on, each of *trusted* once.

    Roots, which sign themselves, are left out.
    """
    candidates = [other for other in trusted if other.subject != other.issuer]
    while (
        signer := next((other for other in candidates if _is_signed(certificate, other)), None)
    ) is not None:
        yield signer
        candidates.remove(signer)
        certificate = signer


def _is_signed(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    # another issuer's name, a kind of key that can't verify, another key's signature
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True
