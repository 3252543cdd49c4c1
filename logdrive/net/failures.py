"""Converts errors of sockets and OpenSSL to `TransientError`s with the cause and a remedy."""

import errno
import os
from typing import Final

from OpenSSL import SSL

from logdrive.errors import RejectedError, TransientError, os_error_text
from logdrive.net.verification import Handshake

# reasons of alerts that a peer sends, with a remedy
_ALERTS: Final = (
    ("certificate required", "it asks for a client certificate and got none: set cert and key"),
    (
        "unknown ca",
        "it does not know the CA of our certificate: let that CA be among its trusted ones",
    ),
    ("certificate expired", "it says that our certificate has expired: renew it"),
    ("bad certificate", "it does not accept our certificate: see its log for the reason"),
    (
        "certificate unknown",
        (
            "it does not accept our certificate: does it speak for the name that the other "
            "side expects?"
        ),
    ),
    (
        "unsupported certificate",
        "our certificate's extended key usage does not allow this side of TLS",
    ),
    ("certificate revoked", "it says that our certificate was revoked"),
    (
        "handshake failure",
        "no TLS version, cipher and certificate kind in common, or it wants a client certificate",
    ),
    ("protocol version", "no TLS version in common: 1.2 and 1.3 are spoken here"),
    ("decrypt error", "it could not verify our signature: do certificate and key belong together?"),
    (
        "internal error",
        "it failed inside, or our certificate does not speak for the name it expects: see its log",
    ),
)
# OpenSSL's reasons for bytes that are no TLS
_NOT_TLS: Final = (
    "wrong version number",
    "http request",
    "packet length too long",
    "https proxy request",
    "record layer failure",
)
_RESETS: Final = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)


def openssl_reasons(error: SSL.Error) -> str:
    """Return OpenSSL's reasons for *error*, without the names of libraries and functions."""
    if isinstance(error, SSL.SysCallError):
        number = error.args[0] if error.args else -1  # -1 for an end without close_notify
        return (
            os.strerror(number).lower()
            if isinstance(number, int) and number > 0
            else "closed without a goodbye"
        )
    queue = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return (
        "; ".join(str(entry[-1] or entry[0]) for entry in queue if entry) or "an unnamed TLS error"
    )


def tls_failure(peer: str, error: SSL.Error, handshake: Handshake | None) -> TransientError:
    """Return why TLS with *peer* failed, as an error to raise."""
    # we refused its certificate
    if handshake is not None and handshake.refusal is not None:
        return RejectedError(f"{peer}: its certificate is refused: {handshake.refusal}")

    reasons = openssl_reasons(error)
    # the peer may have restarted just now
    if isinstance(error, SSL.SysCallError):
        text = (
            f"{peer}: it ended the connection during the TLS handshake ({reasons}): is TLS on "
            "at both ends?"
        )
        return RejectedError(text, sure=False)
    if "peer did not return a certificate" in reasons:
        return RejectedError(
            f"{peer}: it brought no certificate: give it one signed by the CA of this listener"
        )
    if any(sign in reasons for sign in _NOT_TLS):
        return RejectedError(f"{peer}: it does not speak TLS ({reasons}): is TLS on at both ends?")
    # it refused something of ours
    if "alert" in reasons:
        remedy = next((remedy for sign, remedy in _ALERTS if sign in reasons), None)
        return RejectedError(
            f"{peer}: it refused the connection ({reasons}): {remedy or 'see its log'}",
            sure=remedy is not None,
        )
    return TransientError(f"{peer}: TLS failed: {reasons}")


def socket_failure(peer: str, error: OSError) -> TransientError:
    """Return what happened to the connection with *peer*, as an error to raise."""
    if error.errno in _RESETS:
        return TransientError(f"{peer}: the connection was reset by the other side")
    return TransientError(f"{peer}: {os_error_text(error)}")
