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

    None where *cert* has its signers beside it: then these are sent, as they stand there. None
    either where a file holds what only OpenSSL can read. Raises OSError.
    """
    try:
        ours, known = _certificates(cert), _certificates(ca)
        return list(_signers(ours[0], known)) if len(ours) == 1 else []
    except ValueError:
        return []


def _certificates(path: str) -> Sequence[x509.Certificate]:
    with open(path, "rb") as file:
        return x509.load_pem_x509_certificates(file.read())


def _signers(of: x509.Certificate, known: Sequence[x509.Certificate]) -> Iterator[x509.Certificate]:
    """Go up from *of* through those *known* that are signed by others, each of them once."""
    left = [each for each in known if each.subject != each.issuer]
    while (signer := next((each for each in left if _signed(of, each)), None)) is not None:
        yield signer
        left.remove(signer)
        of = signer


def _signed(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    # another's name, an unfit key, another's
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True
