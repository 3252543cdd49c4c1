"""What the operator of a store may set: parsed once at start, never changed. `config/store.toml` explains it."""

import ipaddress
import os.path
from typing import Annotated, ClassVar, Literal

import msgspec

from logdrive.address import host_port, is_loopback
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.stream import ServerTls
from logdrive.services.auth.config import AuthConfig
from logdrive.store.retention import Policy

PRAVEGA_PORT = 6000
CONTROLLER_PORT = 9090


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
            raise ValueError(f'plain TCP is for loopback addresses: give [{self.table}.tls], or write tls = "off"')

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
    """The [listen.controller] table: where Pravega's clients ask for streams. *advertise* is where they are sent for the segments."""

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
            raise ValueError("listen.controller sends clients to the segments' own face: give [listen.pravega], too")
        if self.advertise is None and _is_wildcard(face.where[0]):
            raise ValueError(f'listen.controller.advertise is missing: nobody can connect to {face.where[0]}, write "host:port"')

    def node(self, face: tuple[str, int]) -> tuple[str, int]:
        """Return where clients are sent, the segments' face being at *face*."""
        return host_port(self.advertise, PRAVEGA_PORT) if self.advertise is not None else face


class StoreListenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen] table of a store."""

    pravega: FaceConfig
    controller: ControllerConfig | None = None
    auth: AuthConfig | None = None

    def __post_init__(self) -> None:
        """Refuse a controller that could not say where segments are, and logins without one, or for all to read."""
        if self.controller is not None:
            self.controller.check(self.pravega)
        check_auth(self.auth, self.pravega, self.controller)


class DirectoryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [store] table: the directory, which belongs to one process at a time.

    Without *direct_io* the log goes through the page cache, as a file system may want whose O_DIRECT is poor.
    """

    path: str
    direct_io: bool = True

    def __post_init__(self) -> None:
        """Refuse a path that means something else in every working directory."""
        if not os.path.isabs(self.path):
            raise ValueError("path: it must be absolute, as in /var/lib/logdrive/store")


class RetentionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[retention]] table: what is kept of the streams that *stream*, `scope/stream` with * and ?, names.

    *readers* are the names of those who must have read what is cut off.
    """

    stream: str
    max_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_age_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    readers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would keep everything, and what names no stream."""
        if self.stream.count("/") != 1:
            raise ValueError('stream: write scope/stream, as in "logs/*"')
        if self.max_bytes is None and self.max_age_seconds is None:
            raise ValueError("give max_bytes, max_age_seconds, or both")

    @property
    def policy(self) -> Policy:
        """What the store applies."""
        age = None if self.max_age_seconds is None else int(self.max_age_seconds * 1000)
        return Policy(self.stream, self.max_bytes, age, self.readers)


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole store.toml."""

    store: DirectoryConfig
    listen: StoreListenConfig
    retention: tuple[RetentionConfig, ...] = ()


def check_auth(auth: AuthConfig | None, face: FaceConfig | None, controller: ControllerConfig | None) -> None:
    """Raise ValueError where *auth* does not go with what listens."""
    if auth is not None:
        tables = [table for table in (face, controller) if table is not None]
        auth.check(controller=controller is not None, exposed=[table.table for table in tables if table.exposed])


def _is_wildcard(host: str) -> bool:
    """Tell whether *host* stands for all addresses of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
