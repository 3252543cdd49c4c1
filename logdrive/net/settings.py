"""The TLS tables of all configurations.

A field of type `Literal["off"] | ServerTlsConfig` takes both `tls = "off"` and a table
`[listen.tls]`. It has no default, so that a forgotten key does not mean plain TCP.
"""

from typing import Literal

import msgspec

from logdrive.host.transport import ClientTls, ServerTls


class ServerTlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """TLS of a listener. Paths are of PEM files."""

    cert: str  # our certificate, then those that signed it
    key: str  # its private key, without a passphrase
    ca: str | None = None  # signs the clients' certificates
    clients: Literal["certificate", "any"] = "certificate"  # whether clients need one

    def __post_init__(self) -> None:
        """Refuse a missing CA, unless clients need no certificate."""
        if self.clients == "certificate" and self.ca is None:
            raise ValueError(
                "ca is missing: name the CA that signs client certificates, or write "
                'clients = "any"'
            )
        if self.clients == "any" and self.ca is not None:
            raise ValueError('clients = "any" and ca exclude each other: leave one of them out')

    def settings(self, alpn: tuple[str, ...] = ()) -> ServerTls:
        """Return the settings for `Transport.listen`; *alpn* is in the order of preference."""
        return ServerTls(self.cert, self.key, self.ca, alpn)


class ClientTlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """TLS of a client. Paths are of PEM files."""

    ca: str  # signs the server's certificate
    cert: str | None = None  # our certificate, if the server asks for one
    key: str | None = None  # its private key, without a passphrase
    server_name: str | None = None  # to verify, if it is not the host that is connected to

    def __post_init__(self) -> None:
        """Refuse a certificate without its key, and a key without its certificate."""
        if (self.cert is None) != (self.key is None):
            raise ValueError(
                "cert and key go together: give both, or neither where the server asks for none"
            )

    def settings(self, alpn: tuple[str, ...] = ()) -> ClientTls:
        """Return the settings for `Transport.connect`."""
        return ClientTls(self.ca, self.cert, self.key, self.server_name, alpn)
