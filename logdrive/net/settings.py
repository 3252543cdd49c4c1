"""The TLS tables of every configuration, and the plain words that turn TLS off.

A field of type `Literal["off"] | ServerTlsConfig` takes both `tls = "off"` and a table
`[listen.tls]`; without a default, plain TCP is never had by forgetting something.
"""

from typing import Literal

import msgspec

from logdrive.net.stream import ClientTls, ServerTls


class ServerTlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a listener shows and demands.

    Clients need a certificate of *ca*, unless *clients* says that anybody may come.
    """

    cert: str
    key: str
    ca: str | None = None
    clients: Literal["certificate", "any"] = "certificate"

    def __post_init__(self) -> None:
        """Demand a CA unless clients go without certificates in so many words."""
        if self.clients == "certificate" and self.ca is None:
            raise ValueError(
                "ca is missing: name the CA that signs client certificates, or write "
                'clients = "any"'
            )
        if self.clients == "any" and self.ca is not None:
            raise ValueError('clients = "any" and ca exclude each other: leave one of them out')

    def settings(self, alpn: tuple[str, ...] = ()) -> ServerTls:
        """Return what `Transport.listen` takes; *alpn* is in the order of preference."""
        return ServerTls(self.cert, self.key, self.ca, alpn)


class ClientTlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a client trusts and shows.

    *server_name* is verified instead of the host connected to.
    """

    ca: str
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        """Refuse half a pair."""
        if (self.cert is None) != (self.key is None):
            raise ValueError(
                "cert and key go together: give both, or neither where the server asks for none"
            )

    def settings(self, alpn: tuple[str, ...] = ()) -> ClientTls:
        """Return what `Transport.connect` takes."""
        return ClientTls(self.ca, self.cert, self.key, self.server_name, alpn)
