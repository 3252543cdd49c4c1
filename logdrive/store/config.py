"""What the operator of a store may set: parsed once at start, never changed. `config/store.toml` explains it."""

import ipaddress
import os.path
from typing import Literal

import msgspec

from logdrive.address import host_port
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.stream import ServerTls

PRAVEGA_PORT = 6000


class FaceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.pravega] table: where the store is read and appended to over the network.

    Without *tls* it is plain TCP, and then on loopback addresses only.
    """

    address: str
    tls: Literal["off"] | ServerTlsConfig | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address, and plain TCP that nobody asked for."""
        host, _ = host_port(self.address, PRAVEGA_PORT)
        if self.tls is None and not is_loopback(host):
            raise ValueError('plain TCP is for loopback addresses: give [listen.pravega.tls], or write tls = "off"')

    @property
    def where(self) -> tuple[str, int]:
        """Host and port."""
        return host_port(self.address, PRAVEGA_PORT)

    @property
    def settings(self) -> ServerTls | None:
        """What `Transport.listen` takes."""
        return self.tls.settings() if isinstance(self.tls, ServerTlsConfig) else None


class StoreListenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen] table of a store."""

    pravega: FaceConfig


class DirectoryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [store] table: the directory, which belongs to one process at a time."""

    path: str

    def __post_init__(self) -> None:
        """Refuse a path that means something else in every working directory."""
        if not os.path.isabs(self.path):
            raise ValueError("path: it must be absolute, as in /var/lib/logdrive/store")


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole store.toml."""

    store: DirectoryConfig
    listen: StoreListenConfig


def is_loopback(host: str) -> bool:
    """Tell whether *host* can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
