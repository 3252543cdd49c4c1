"""Configuration that the store's faces have in common: an address, and TLS.

Each streaming service has its own tables in `logdrive/services/NAME/server/config.py`;
`logdrive/services/config.py` puts them together.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import msgspec

from logdrive.address import host_port, is_loopback, is_wildcard
from logdrive.config.bounds import checked
from logdrive.host.transport import ServerTls
from logdrive.net.settings import ServerTlsConfig


def listeners_collide(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Return whether one program can't listen at both addresses; port 0 is any that is free."""
    hosts = (one[0], other[0])
    return one[1] == other[1] != 0 and (hosts[0] == hosts[1] or any(map(is_wildcard, hosts)))


class FaceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a face: where the store listens for the clients of one streaming service.

    A subclass sets *table*, the name of its table, and *default_port*. Without *tls* a face is
    plain TCP, on loopback addresses only; tls = "off" allows it on all.
    """

    table: ClassVar[str]
    default_port: ClassVar[int]

    address: Annotated[str, checked(host_port)]
    tls: Literal["off"] | ServerTlsConfig | None = None

    def __post_init__(self) -> None:
        """Refuse a malformed address, and plain TCP beyond this host without tls = "off"."""
        host, _ = self.host_and_port
        if self.tls is None and not is_loopback(host):
            raise ValueError(
                f"plain TCP is for loopback addresses: give [{self.table}.tls], or write "
                'tls = "off"'
            )

    def check_apart(self, others: "Iterable[FaceConfig | None]") -> None:
        """Raise ValueError if one of *others* has the same address."""
        for other in others:
            if other is not None and listeners_collide(self.host_and_port, other.host_and_port):
                raise ValueError(
                    f"{self.table}.address is {other.table}.address, too: choose another port"
                )

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Host and port to listen at."""
        return host_port(self.address, self.default_port)

    @property
    def tls_settings(self) -> ServerTls | None:
        """TLS settings for `Transport.listen`; None for plain TCP."""
        return self.tls.settings() if isinstance(self.tls, ServerTlsConfig) else None

    @property
    def is_exposed(self) -> bool:
        """True if traffic from other hosts is in plain TCP."""
        return self.tls_settings is None and not is_loopback(self.host_and_port[0])


def tls_tables(faces: Iterable[FaceConfig | None]) -> list[ServerTlsConfig]:
    """Return the tables with the certificates of *faces*, as far as they have any."""
    return [
        face.tls for face in faces if face is not None and isinstance(face.tls, ServerTlsConfig)
    ]
