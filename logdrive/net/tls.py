"""TLS contexts and connections, without TLS below 1.2, sessions, tickets and renegotiation.

A server with a CA asks for a client certificate signed by it. A client always verifies the server:
the chain up to its CA, and the expected name among the certificate's names. A certificate given as
CA is trusted by itself, even if another one signed it, so that a server's own certificate can be
pinned. (A TLS 1.3 server still sends tickets, which pyOpenSSL can't turn off; they resume nothing.)
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from OpenSSL import SSL, crypto

from logdrive.errors import ConfigError, Mistake, os_error_text
from logdrive.host.transport import ClientTls, ServerTls
from logdrive.net.pem_files import CA_DEMAND, CERT_DEMAND, KEY_DEMAND
from logdrive.net.signers import signers_to_send
from logdrive.net.verification import Handshake, is_address, verify_certificate

_MODE_ENABLE_PARTIAL_WRITE = 1  # SSL_MODE_ENABLE_PARTIAL_WRITE of openssl/ssl.h, set by pyOpenSSL
_MODE_NO_AUTO_CHAIN = 8  # SSL_MODE_NO_AUTO_CHAIN


def client_context(tls: ClientTls) -> SSL.Context:
    """Return the context of a client. Raises `ConfigError` with the file that can't be used."""
    context = _context(SSL.TLS_CLIENT_METHOD)
    _trust(context, tls.ca)
    if tls.cert is not None and tls.key is not None:
        _present(context, tls.cert, tls.key)
        _send_no_root(context, tls.cert, tls.ca)
    elif tls.cert is not None or tls.key is not None:
        missing = "key" if tls.key is None else "cert"
        raise _mistake(
            missing,
            "",
            "cert and key go together: give both, or neither where the server asks for none",
        )
    context.set_verify(SSL.VERIFY_PEER, verify_certificate)
    if tls.alpn:
        context.set_alpn_protos([name.encode() for name in tls.alpn])
    return context


def server_context(tls: ServerTls) -> SSL.Context:
    """Return the context of a server. Raises `ConfigError` with the file that can't be used."""
    context = _context(SSL.TLS_SERVER_METHOD)
    _present(context, tls.cert, tls.key)
    if tls.ca is not None:
        _trust(context, tls.ca)
        context.load_client_ca(tls.ca.encode())
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, verify_certificate)
    if tls.alpn:
        context.set_alpn_select_callback(_alpn_choice(tls.alpn))
    return context


def client_connection(
    context: SSL.Context, sock: socket.socket, server_name: str
) -> SSL.Connection:
    """Return the client's end over *sock*; it accepts only a certificate for *server_name*."""
    connection = SSL.Connection(context, sock)
    connection.set_app_data(Handshake(expected=server_name))
    if not is_address(server_name):  # SNI carries names only
        connection.set_tlsext_host_name(
            server_name.rstrip(".").encode("ascii" if server_name.isascii() else "idna")
        )
    connection.set_connect_state()
    return connection


def server_connection(context: SSL.Context, sock: socket.socket) -> SSL.Connection:
    """Return the server's end over an accepted *sock*."""
    connection = SSL.Connection(context, sock)
    connection.set_app_data(Handshake())
    connection.set_accept_state()
    return connection


def _context(method: int) -> SSL.Context:
    context = SSL.Context(method)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    # without it a client that offers a session would be refused; so it gets a full handshake
    context.set_session_id(b"logdrive")
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # half the memory of an idle connection
    # else a call into OpenSSL sends one record of 16 KiB, not the whole buffer
    context.clear_mode(_MODE_ENABLE_PARTIAL_WRITE)
    return context


def _trust(context: SSL.Context, path: str) -> None:
    with _loading("ca", path, CA_DEMAND):
        context.load_verify_locations(path)
    # a certificate that is not a root may be named as CA
    store = context.get_cert_store()
    assert store is not None
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)


def _present(context: SSL.Context, cert: str, key: str) -> None:
    with _loading("cert", cert, CERT_DEMAND):
        context.use_certificate_chain_file(cert)
    with _loading("key", key, KEY_DEMAND):
        context.use_privatekey(_private_key(key))
    try:
        context.check_privatekey()
    except SSL.Error:
        raise _mistake("key", key, f"it is not the private key of {cert}") from None


def _private_key(
    path: str,
) -> (
    rsa.RSAPrivateKey
    | ec.EllipticCurvePrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
):
    """Return the private key at *path*, in PKCS#8 or an older form.

    Raises OSError, and ValueError or TypeError if it is none.
    """
    with open(path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), password=None)
    if isinstance(
        key,
        rsa.RSAPrivateKey
        | ec.EllipticCurvePrivateKey
        | ed25519.Ed25519PrivateKey
        | ed448.Ed448PrivateKey,
    ):
        return key
    raise ValueError("a kind of key that TLS does not use")


def _send_no_root(context: SSL.Context, cert: str, ca: str) -> None:
    context.set_mode(_MODE_NO_AUTO_CHAIN)
    with _loading("cert", cert, "it must hold certificates in PEM form"):
        for signer in signers_to_send(cert, ca):
            context.add_extra_chain_cert(signer)


@contextmanager
def _loading(name: str, path: str, demand: str) -> Iterator[None]:
    """Convert errors raised inside to `ConfigError`s with the file and a remedy."""
    try:
        # OpenSSL's error would not say that the file is missing, or may not be read
        with open(path, "rb"):
            pass
        yield
    except OSError as error:
        reason = os_error_text(error)
        certs = "`logdrive certs DIR` makes certificates, `logdrive agent enroll` takes an agent's"
        remedy = (
            "let the user that this runs as read it"
            if isinstance(error, PermissionError)
            else certs
        )
        raise _mistake(name, path, f"{reason}; {remedy}") from error
    # TypeError: the key has a passphrase
    except (SSL.Error, ValueError, TypeError, UnsupportedAlgorithm) as error:
        mismatch = (
            "it is not the private key of the certificate" if "mismatch" in str(error) else demand
        )
        raise _mistake(name, path, mismatch) from error


def _mistake(name: str, path: str, remedy: str) -> ConfigError:
    return ConfigError("tls", [Mistake(name, path, remedy)])


def _alpn_choice(
    ours: tuple[str, ...],
) -> "Callable[[SSL.Connection, list[bytes]], bytes | SSL._NoOverlappingProtocols]":
    names = [name.encode() for name in ours]

    def choose(
        _connection: SSL.Connection, theirs: list[bytes]
    ) -> "bytes | SSL._NoOverlappingProtocols":
        # with none in common the handshake goes on without one: deployed peers expect plain
        # Lumberjack there, not an alert
        return next((name for name in names if name in theirs), SSL.NO_OVERLAPPING_PROTOCOLS)

    return choose
