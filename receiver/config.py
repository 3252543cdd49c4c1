"""What the operator of a receiver may set: parsed once at start, passed down, never changed.

`config/receiver.toml` explains it.
"""

from dataclasses import replace
from typing import Annotated, Literal
from uuid import UUID, uuid5

import msgspec

from logdrive.address import ServiceAddress, StreamAddress, host_port, is_loopback, sink_address
from logdrive.config.bounds import Count, Positive
from logdrive.model.dead_letters import DEAD_STREAM
from logdrive.model.identity import NAMESPACE
from logdrive.model.units import MIB
from logdrive.net.settings import ClientTlsConfig, ServerTlsConfig
from logdrive.net.stream import ClientTls, ServerTls
from logdrive.services.auth.config import AuthConfig
from logdrive.services.pravega.client.controller import Login
from logdrive.services.pravega.client.login import LoginConfig
from logdrive.services.pravega.server.config import (
    ControllerConfig,
    FaceConfig,
    check_auth,
    collide,
)
from logdrive.store.config import RetentionConfig

ALPN = ("logdrive/1", "lumberjack/2", "lumberjack/1")
"""The dialects offered, the best first; who names none speaks plain Lumberjack."""

MemorySize = Annotated[int, msgspec.Meta(ge=8 * MIB)]


class ListenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen] table: where agents and Beats connect, who they must be, and how long they may
    be silent.

    *name* is what routes know the listener by; *identity*, where given, stands for every client's
    (rule D6).
    """

    address: str
    tls: Literal["off"] | ServerTlsConfig
    name: str = "default"
    identity: str | None = None
    max_connections: Count = 10_000
    keepalive_seconds: Positive = 3.0
    idle_seconds: Positive = 900.0
    pravega: FaceConfig | None = None
    controller: ControllerConfig | None = None
    auth: AuthConfig | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address, a controller that could not say where segments are, and logins
        without one, or for all to read.
        """
        host_port(self.address)
        if self.controller is not None:
            self.controller.check(self.pravega)
        check_auth(self.auth, self.pravega, self.controller)
        for face in (self.pravega, self.controller):
            if face is not None and collide(face.where, self.where):
                raise ValueError(
                    f"{face.table}.address is listen.address, too: choose another port"
                )

    @property
    def where(self) -> tuple[str, int]:
        """Host and port."""
        return host_port(self.address)

    @property
    def settings(self) -> ServerTls | None:
        """What `Transport.listen` takes."""
        return self.tls.settings(ALPN) if isinstance(self.tls, ServerTlsConfig) else None


class SinkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [sink] table: the stream that everything goes to; *segments* counts when it is created.

    *log_file_bytes* is how large a file of an embedded store's log gets; without *direct_io* it
    goes through the page cache. *tls* and *store_id* are for a service: what it is connected to
    with (plain TCP is for loopback addresses), and its id, which otherwise is made from the
    address; *login* is for a controller that asks for one.
    """

    uri: str
    segments: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 4
    log_file_bytes: Annotated[int, msgspec.Meta(ge=MIB)] = 256 * MIB
    direct_io: bool = True
    tls: Literal["off"] | ClientTlsConfig | None = None
    store_id: UUID | None = None
    login: LoginConfig | None = None

    def __post_init__(self) -> None:
        """Refuse what is no stream, plain TCP that nobody asked for, and what an embedded store has
        no use for.
        """
        address = sink_address(self.uri)
        if isinstance(address, ServiceAddress):
            if self.tls is None and not is_loopback(address.host):
                raise ValueError(
                    'plain TCP is for loopback addresses: give [sink.tls], or write tls = "off"'
                )
        elif self.tls is not None:
            raise ValueError("tls: a store in this process is not connected to: leave it out")
        elif self.store_id is not None:
            raise ValueError("store_id: an embedded store makes its own: leave it out")
        elif self.login is not None:
            raise ValueError("login: a store in this process asks nobody: leave it out")

    @property
    def stream(self) -> StreamAddress | ServiceAddress:
        """The stream's address."""
        return sink_address(self.uri)

    @property
    def dead_letters(self) -> StreamAddress | ServiceAddress:
        """The address of the stream beside it, for events over the limit of all (rule R7)."""
        stream = self.stream
        return replace(stream, stream=stream.stream + DEAD_STREAM)

    @property
    def settings(self) -> ClientTls | None:
        """What `Transport.connect` takes."""
        return self.tls.settings() if isinstance(self.tls, ClientTlsConfig) else None

    @property
    def credentials(self) -> Login | None:
        """What `served` takes."""
        return self.login.login if self.login is not None else None

    @property
    def service_id(self) -> UUID:
        """What agents know a service's stream by (rule D5): the same for all receivers that name it
        alike.
        """
        return self.store_id if self.store_id is not None else uuid5(NAMESPACE, self.stream.uri)


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [limits] table: bytes received and not yet durable, at which reading stops: of one
    connection, and of all.

    *sources_bytes* is the memory for registered sources, of all connections.
    """

    connection_bytes: MemorySize = 32 * MIB
    total_bytes: MemorySize = 128 * MIB
    sources_bytes: MemorySize = 512 * MIB


class ReceiverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole receiver.toml. *drain_seconds* is how long SIGTERM leaves for what was received."""

    listen: ListenConfig
    sink: SinkConfig
    limits: LimitsConfig = LimitsConfig()
    retention: tuple[RetentionConfig, ...] = ()
    drain_seconds: Positive = 20.0

    def __post_init__(self) -> None:
        """Refuse to serve a store that is elsewhere, or to cut what is in it."""
        if self.retention and isinstance(self.sink.stream, ServiceAddress):
            raise ValueError(
                "retention is for a store of this process, and this sink's is at "
                f"{self.sink.uri}: leave the tables out"
            )
        if self.listen.pravega is not None and isinstance(self.sink.stream, ServiceAddress):
            raise ValueError(
                "listen.pravega serves a store of this process, and this sink's is at "
                f"{self.sink.uri}: leave the table out"
            )
