"""What the operator of a store's network faces may set: parsed once at start, never changed.

`config/store.toml` explains it.
"""

from typing import ClassVar, Literal

import msgspec

from logdrive.address import host_port, is_loopback, is_wildcard
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.stream import ServerTls
from logdrive.services.auth.config import AuthConfig
from logdrive.store.config import DirectoryConfig, RetentionConfig

PRAVEGA_PORT = 6000
CONTROLLER_PORT = 9090


def collide(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether one program can't listen at both; port 0 is any that is free."""
    hosts = (one[0], other[0])
    return one[1] == other[1] != 0 and (hosts[0] == hosts[1] or any(map(is_wildcard, hosts)))


class FaceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.pravega] table: where the store is read and appended to over the network.

    Without *tls* it is plain TCP, and then on loopback addresses only.
    """

    table: ClassVar[str] = "listen.pravega"
    default_port: ClassVar[int] = PRAVEGA_PORT

    address: str
    tls: Literal["off"] | ServerTlsConfig | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address, and plain TCP that nobody asked for."""
        host, _ = self.where
        if self.tls is None and not is_loopback(host):
            raise ValueError(
                f"plain TCP is for loopback addresses: give [{self.table}.tls], or write "
                'tls = "off"'
            )

    @property
    def where(self) -> tuple[str, int]:
        """Host and port."""
        return host_port(self.address, self.default_port)

    @property
    def settings(self) -> ServerTls | None:
        """What `Transport.listen` takes."""
        return self.tls.settings() if isinstance(self.tls, ServerTlsConfig) else None

    @property
    def exposed(self) -> bool:
        """Whether what goes to it can be read on the way from other hosts."""
        return self.settings is None and not is_loopback(self.where[0])


class ControllerConfig(FaceConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen.controller] table: where Pravega's clients ask for streams.

    *advertise* is where they are sent for the segments.
    """

    table: ClassVar[str] = "listen.controller"
    default_port: ClassVar[int] = CONTROLLER_PORT

    advertise: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address."""
        super().__post_init__()
        if self.advertise is not None:
            host_port(self.advertise, PRAVEGA_PORT)

    def check(self, face: FaceConfig | None) -> None:
        """Raise ValueError where clients could not be told where the segments are."""
        if face is None:
            raise ValueError(
                "listen.controller sends clients to the segments' own face: give "
                "[listen.pravega], too"
            )
        if collide(self.where, face.where):
            raise ValueError(
                "listen.controller.address is listen.pravega.address, too: choose another port"
            )
        if self.advertise is None and is_wildcard(face.where[0]):
            raise ValueError(
                "listen.controller.advertise is missing: nobody can connect to "
                f'{face.where[0]}, write "host:port"'
            )

    def node(self, face: tuple[str, int]) -> tuple[str, int]:
        """Return where clients are sent, the segments' face being at *face*."""
        return host_port(self.advertise, PRAVEGA_PORT) if self.advertise is not None else face


class StoreListenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen] table of a store."""

    pravega: FaceConfig
    controller: ControllerConfig | None = None
    auth: AuthConfig | None = None

    def __post_init__(self) -> None:
        """Refuse a controller that could not say where segments are, and logins without one, or for
        all to read.
        """
        if self.controller is not None:
            self.controller.check(self.pravega)
        check_auth(self.auth, self.pravega, self.controller)


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole store.toml."""

    store: DirectoryConfig
    listen: StoreListenConfig
    retention: tuple[RetentionConfig, ...] = ()


def check_auth(
    auth: AuthConfig | None, face: FaceConfig | None, controller: ControllerConfig | None
) -> None:
    """Raise ValueError where *auth* does not go with what listens."""
    if auth is not None:
        tables = [table for table in (face, controller) if table is not None]
        auth.check(
            controller=controller is not None,
            exposed=[table.table for table in tables if table.exposed],
        )
