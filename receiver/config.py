"""Configuration of a receiver: parsed once at start, passed down, never changed.

`config/receiver.toml` explains each key.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal
from uuid import UUID, uuid5

import msgspec

from logdrive.address import (
    AnyAddress,
    IggyAddress,
    S2Address,
    StreamAddress,
    host_port,
    is_loopback,
    sink_address,
)
from logdrive.config.bounds import Count, Positive, checked
from logdrive.host.transport import ClientTls, ServerTls
from logdrive.model.dead_letters import DEAD_STREAM
from logdrive.model.identity import NAMESPACE
from logdrive.model.units import MIB
from logdrive.net.settings import ClientTlsConfig, ServerTlsConfig
from logdrive.services.auth.config import AuthConfig
from logdrive.services.config import check_auth
from logdrive.services.face_config import listeners_collide, tls_tables
from logdrive.services.iggy.client.target import IggyTarget, iggy_target
from logdrive.services.iggy.server.config import IggyFaceConfig
from logdrive.services.pravega.client.controller import Login
from logdrive.services.pravega.client.login import LoginConfig
from logdrive.services.pravega.server.config import ControllerConfig, PravegaFaceConfig
from logdrive.services.s2.client.target import S2Target, target_of
from logdrive.services.s2.server.config import S2FaceConfig
from logdrive.store.config import RetentionConfig
from logdrive.wire.lumberjack.limits import NATIVE, PACKED

ALPN = (PACKED, NATIVE, "lumberjack/2", "lumberjack/1")
"""The dialects offered in TLS, the best first; a client that names none speaks plain Lumberjack."""

Unpack = Literal["no", "blocks", "full"]
"""What becomes of packs: they are stored as they came, or what they hold is (rule R8)."""

MemorySize = Annotated[int, msgspec.Meta(ge=8 * MIB)]
"""A number of bytes of memory; the least lets one `logdrive/1` envelope through."""


class ListenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen] table: where agents and Beats connect, and where the store's faces listen."""

    address: Annotated[str, checked(host_port)]  # host:port
    tls: Literal["off"] | ServerTlsConfig
    name: str = "default"  # of the listener, for routes
    # of every client, in place of its certificate's (rule D6); an empty one, as of a variable
    # without a value, would make every file another source
    identity: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    max_connections: Count = 10_000
    keepalive_seconds: Positive = 3.0  # between keepalives to a peer that waits
    idle_seconds: Positive = 900.0  # of silence until a connection is closed
    pravega: PravegaFaceConfig | None = None  # the store's segment store face
    controller: ControllerConfig | None = None  # the store's controller
    s2: S2FaceConfig | None = None  # the store's face for S2's clients
    iggy: IggyFaceConfig | None = None  # the store's face for Iggy's clients
    auth: AuthConfig | None = None  # logins at these four

    def __post_init__(self) -> None:
        """Refuse a malformed address, a controller without the segment store that it would name,
        and logins without a controller, or over plain TCP.
        """
        host_port(self.address)
        if self.controller is not None:
            self.controller.check_advertised(self.pravega)
        if self.s2 is not None:
            self.s2.check_apart((self.pravega, self.controller))
        if self.iggy is not None:
            self.iggy.check_apart((self.pravega, self.controller, self.s2))
        check_auth(self.auth, self.pravega, self.controller, self.s2, self.iggy)
        for face in (self.pravega, self.controller, self.s2, self.iggy):
            if face is not None and listeners_collide(face.host_and_port, self.where):
                raise ValueError(
                    f"{face.table}.address is listen.address, too: choose another port"
                )

    @property
    def where(self) -> tuple[str, int]:
        """Host and port."""
        return host_port(self.address)

    @property
    def tls_tables(self) -> list[ServerTlsConfig]:
        """Certificates of this table and those in it, as far as they have any."""
        own = [self.tls] if isinstance(self.tls, ServerTlsConfig) else []
        return own + tls_tables((self.pravega, self.controller, self.s2, self.iggy))

    @property
    def settings(self) -> ServerTls | None:
        """TLS settings for `Transport.listen`, None for plain TCP."""
        return self.tls.settings(ALPN) if isinstance(self.tls, ServerTlsConfig) else None


class SinkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [sink] table: the stream that all sources go to, in an embedded store or at a streaming
    service.
    """

    uri: Annotated[str, checked(sink_address)]
    segments: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 4  # of a stream that is created
    unpack: Unpack = "no"  # how what packs hold is stored

    # of an embedded store
    log_file_bytes: Annotated[int, msgspec.Meta(ge=MIB)] = 256 * MIB  # limit on one log file
    direct_io: bool = True  # False: the log goes through the page cache

    # of a streaming service
    tls: Literal["off"] | ClientTlsConfig | None = None  # None only for loopback addresses
    store_id: UUID | None = None  # made from the uri if not given
    login: LoginConfig | None = None  # at Pravega's controller, or at Iggy
    token: Annotated[str, msgspec.Meta(min_length=1)] | None = None  # access token for S2

    def __post_init__(self) -> None:
        """Refuse a malformed uri, plain TCP over a network unless *tls* is "off", and keys that the
        kind of sink does not have.
        """
        address = sink_address(self.uri)
        if isinstance(address, StreamAddress):
            self._check_embedded()
            return
        if self.tls is None and address.host and not is_loopback(address.host):
            raise ValueError(
                'plain TCP is for loopback addresses: give [sink.tls], or write tls = "off"'
            )
        if isinstance(address, S2Address) and self.login is not None:
            raise ValueError("login: S2 has access tokens instead: give token")
        if not isinstance(address, S2Address) and self.token is not None:
            # not as "token: …", which would show it
            raise ValueError(
                "leave token out: it is for s2://, Pravega's controller and Iggy have a login"
            )
        if isinstance(address, IggyAddress) and address.user and self.login is not None:
            raise ValueError("login: the uri has user and password, too: leave one of them out")

    def _check_embedded(self) -> None:
        """Refuse the keys of a streaming service."""
        if self.tls is not None:
            raise ValueError("tls: a store in this process needs no connection: leave it out")
        if self.store_id is not None:
            raise ValueError("store_id: an embedded store has its own: leave it out")
        if self.login is not None:
            raise ValueError("login: a store in this process needs none: leave it out")
        if self.token is not None:
            raise ValueError("leave token out: a store in this process needs none")

    @property
    def stream(self) -> AnyAddress:
        """The stream's address."""
        return sink_address(self.uri)

    @property
    def dead_letters(self) -> AnyAddress:
        """The address of the dead-letter stream (rule R7)."""
        stream = self.stream
        return replace(stream, stream=stream.stream + DEAD_STREAM)

    @property
    def settings(self) -> ClientTls | None:
        """TLS settings for `Transport.connect`, None for plain TCP."""
        return self.tls.settings() if isinstance(self.tls, ClientTlsConfig) else None

    @property
    def credentials(self) -> Login | None:
        """User and password for `open_cluster`."""
        return self.login.login if self.login is not None else None

    def iggy_target(self, address: IggyAddress) -> IggyTarget:
        """Return what to connect to Iggy with, for *address*, which is `stream`."""
        login = (self.login.user, self.login.password) if self.login is not None else None
        return iggy_target(address, self.settings, login)

    def s2_target(self, address: S2Address, environ: Mapping[str, str]) -> S2Target:
        """Return what to connect to S2 with, for *address*, which is `stream`. Raises
        `ConfigError` for endpoints in *environ* that can't be used.
        """
        plain = self.tls == "off"
        return target_of(address, tls=self.settings, plain=plain, token=self.token, environ=environ)

    @property
    def service_id(self) -> UUID:
        """The store id that agents compare (rule D5): the same for all receivers with this uri."""
        return self.store_id if self.store_id is not None else uuid5(NAMESPACE, self.stream.uri)


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [limits] table: limits on memory."""

    connection_bytes: MemorySize = 32 * MIB  # received and not durable, of one connection
    total_bytes: MemorySize = 128 * MIB  # received and not durable, of all connections
    sources_bytes: MemorySize = 512 * MIB  # of registered sources, of all connections


class ReceiverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole receiver.toml."""

    listen: ListenConfig
    sink: SinkConfig
    limits: LimitsConfig = LimitsConfig()
    retention: tuple[RetentionConfig, ...] = ()
    drain_seconds: Positive = 20.0  # after SIGTERM, to finish what was received

    def __post_init__(self) -> None:
        """Refuse retention and faces of a store that is not in this process."""
        if self.retention and not isinstance(self.sink.stream, StreamAddress):
            raise ValueError(
                "retention is for a store of this process, and this sink's is at "
                f"{self.sink.stream.uri}: leave the tables out"
            )
        for face in (self.listen.pravega, self.listen.s2, self.listen.iggy):
            if face is not None and not isinstance(self.sink.stream, StreamAddress):
                raise ValueError(
                    f"{face.table} serves a store of this process, and this sink's is at "
                    f"{self.sink.stream.uri}: leave the table out"
                )
