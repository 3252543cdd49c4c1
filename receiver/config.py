"""What the operator of a receiver may set: parsed once at start, passed down, never changed. `config/receiver.toml` explains it."""

from typing import Annotated, Literal

import msgspec

from logdrive.address import StreamAddress, host_port, stream_address
from logdrive.limits import MIB
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.stream import ServerTls
from logdrive.store.config import FaceConfig

ALPN = ("logdrive/1", "lumberjack/2", "lumberjack/1")
"""The dialects offered, the best first; who names none speaks plain Lumberjack."""

Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Memory = Annotated[int, msgspec.Meta(ge=8 * MIB)]


class ListenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [listen] table: where agents and Beats connect, who they must be, and how long they may be silent.

    *name* is what routes know the listener by; *identity*, where given, stands for every client's (rule D6).
    """

    address: str
    tls: Literal["off"] | ServerTlsConfig
    name: str = "default"
    identity: str | None = None
    max_connections: Count = 10_000
    keepalive_seconds: Positive = 3.0
    idle_seconds: Positive = 900.0
    pravega: FaceConfig | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address."""
        host_port(self.address)

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

    *log_file_bytes* is how large a file of the embedded store's log gets.
    """

    uri: str
    segments: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 4
    log_file_bytes: Annotated[int, msgspec.Meta(ge=MIB)] = 256 * MIB

    def __post_init__(self) -> None:
        """Refuse what is no stream."""
        stream_address(self.uri)

    @property
    def stream(self) -> StreamAddress:
        """The stream's address."""
        return stream_address(self.uri)

    @property
    def dead_letters(self) -> StreamAddress:
        """The address of the stream beside it, for records that no batch can hold (rule R3)."""
        stream = self.stream
        return StreamAddress(stream.path, stream.scope, f"{stream.stream}-dead")


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [limits] table: bytes received and not yet durable, at which reading stops: of one connection, and of all."""

    connection_bytes: Memory = 32 * MIB
    total_bytes: Memory = 128 * MIB


class ReceiverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole receiver.toml. *drain_seconds* is how long SIGTERM leaves for what was received."""

    listen: ListenConfig
    sink: SinkConfig
    limits: LimitsConfig = LimitsConfig()
    drain_seconds: Positive = 20.0
