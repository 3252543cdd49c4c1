"""Configuration of a store's network faces: parsed once at start, never changed.

`config/store.toml` explains each key.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal

import msgspec

from logdrive.address import host_port, is_loopback, is_wildcard
from logdrive.host.transport import ServerTls
from logdrive.net.settings import ServerTlsConfig
from logdrive.services.auth.config import AuthConfig
from logdrive.store.config import DirectoryConfig, RetentionConfig

PRAVEGA_PORT = 6000
CONTROLLER_PORT = 9090
S2_PORT = 8080


def listeners_collide(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Return whether one program can't listen at both addresses; port 0 is any that is free."""
    hosts = (one[0], other[0])
    return one[1] == other[1] != 0 and (hosts[0] == hosts[1] or any(map(is_wildcard, hosts)))


class FaceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.pravega] table: the address of the segment store.

    Without *tls* it is plain TCP, on loopback addresses only; tls = "off" allows it on all.
    """

    table: ClassVar[str] = "listen.pravega"
    default_port: ClassVar[int] = PRAVEGA_PORT

    address: str
    tls: Literal["off"] | ServerTlsConfig | None = None

    def __post_init__(self) -> None:
        """Refuse a malformed address, and plain TCP beyond this host without tls = "off"."""
        host, _ = self.host_and_port
        if self.tls is None and not is_loopback(host):
            raise ValueError(
                f"plain TCP is for loopback addresses: give [{self.table}.tls], or write "
                'tls = "off"'
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


class ControllerConfig(FaceConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.controller] table: the address of the controller.

    *advertise* is the segment store's address as clients reach it, which the controller tells them.
    """

    table: ClassVar[str] = "listen.controller"
    default_port: ClassVar[int] = CONTROLLER_PORT

    advertise: str | None = None

    def __post_init__(self) -> None:
        """Refuse malformed addresses."""
        super().__post_init__()
        if self.advertise is not None:
            host_port(self.advertise, PRAVEGA_PORT)

    def check_advertised(self, face: FaceConfig | None) -> None:
        """Raise ValueError where there is no address of the segment store to tell clients."""
        if face is None:
            raise ValueError(
                "listen.controller sends clients to the segments' own face: give "
                "[listen.pravega], too"
            )
        if listeners_collide(self.host_and_port, face.host_and_port):
            raise ValueError(
                "listen.controller.address is listen.pravega.address, too: choose another port"
            )
        if self.advertise is None and is_wildcard(face.host_and_port[0]):
            raise ValueError(
                "listen.controller.advertise is missing: clients can't connect to "
                f'{face.host_and_port[0]}, write "host:port"'
            )

    def advertised_address(self, face: tuple[str, int]) -> tuple[str, int]:
        """Return the address that clients are told; the segment store listens at *face*."""
        return host_port(self.advertise, PRAVEGA_PORT) if self.advertise is not None else face


class S2FaceConfig(FaceConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.s2] table: the address for S2's clients, over HTTP/1.1 and HTTP/2."""

    table: ClassVar[str] = "listen.s2"
    default_port: ClassVar[int] = S2_PORT

    def check_apart(self, others: Iterable[FaceConfig | None]) -> None:
        """Raise ValueError if one of *others* has the same address."""
        for other in others:
            if other is not None and listeners_collide(self.host_and_port, other.host_and_port):
                raise ValueError(
                    f"listen.s2.address is {other.table}.address, too: choose another port"
                )


class StoreListenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen] table of a store."""

    pravega: FaceConfig
    controller: ControllerConfig | None = None
    s2: S2FaceConfig | None = None
    auth: AuthConfig | None = None

    def __post_init__(self) -> None:
        """Refuse a controller without a segment store, and logins that `check_auth` refuses."""
        if self.controller is not None:
            self.controller.check_advertised(self.pravega)
        if self.s2 is not None:
            self.s2.check_apart((self.pravega, self.controller))
        check_auth(self.auth, self.pravega, self.controller, self.s2)


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole store.toml."""

    store: DirectoryConfig
    listen: StoreListenConfig
    retention: tuple[RetentionConfig, ...] = ()


def check_auth(
    auth: AuthConfig | None,
    face: FaceConfig | None,
    controller: ControllerConfig | None,
    s2: S2FaceConfig | None = None,
) -> None:
    """Raise ValueError where *auth* does not fit the listeners; see `AuthConfig`."""
    if auth is not None:
        tables = [table for table in (face, controller, s2) if table is not None]
        auth.check_listeners(
            checked=controller is not None or s2 is not None,
            exposed=[table.table for table in tables if table.is_exposed],
        )
