"""The [output] table: the receivers, and how lines are sent to them."""

from typing import Annotated, Literal

import msgspec

from logdrive.address import peer_address
from logdrive.config.bounds import Positive, checked
from logdrive.model.units import KIB, MIB
from logdrive.net.settings import ClientTlsConfig
from logdrive.wire.lumberjack.limits import WINDOW_BYTES, WINDOWS_IN_FLIGHT

DialectSetting = Literal["logdrive/1", "lumberjack/2", "lumberjack/1", "auto"]
RecordsSetting = Literal["packed", "block", "full"]


class BackoffTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [output.backoff] table: pauses between attempts to connect, chosen at random."""

    initial_seconds: Positive = 0.5
    """Limit on the pause after the first failure; it doubles with each further one."""

    max_seconds: Positive = 30.0
    """Limit on any pause."""


def _check_hosts(hosts: list[str]) -> None:
    for host in hosts:
        peer_address(host)  # raises ValueError


class OutputTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [output] table: the receivers, and how lines are sent to them."""

    hosts: Annotated[list[str], msgspec.Meta(min_length=1), checked(_check_hosts)]
    """Receivers as host:port."""

    tls: Literal["off"] | ClientTlsConfig
    """Certificates, or "off"."""

    mode: Literal["failover", "balance"] = "failover"
    """Whether one receiver is sent to, in turn from a random one on, or all of them at once."""

    dialect: DialectSetting = "logdrive/1"
    """The dialect to speak, or "auto" for the best one that the receiver offers."""

    records: RecordsSetting = "packed"
    """Form of the records (rules R1, R8)."""

    compression: Literal["zstd", "zlib", "none"] = "zlib"
    """Compression of packs and windows."""

    level: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    """Level of the compression; zlib has 1 to 3 here."""

    windows_in_flight: Annotated[int, msgspec.Meta(ge=1, le=WINDOWS_IN_FLIGHT)] = 8
    """Windows sent on each connection without waiting for an acknowledgement."""

    window_bytes: Annotated[int, msgspec.Meta(ge=64 * KIB, le=WINDOW_BYTES // 2)] = 2 * MIB
    """Bytes of lines after which a window is sent."""

    connect_seconds: Positive = 10.0
    """Limit on a connection attempt, TLS included."""

    timeout_seconds: Positive = 30.0
    """Seconds of silence after which a receiver that owes an acknowledgement is given up."""

    stall_seconds: Positive = 300.0
    """The same for a receiver that sends only keepalives; and after which one that refuses sources,
    as with a full disk, and stores nothing, is left where `hosts` has others.
    """

    max_connection_seconds: Annotated[float, msgspec.Meta(ge=1)] | None = None
    """Age at which a connection is made anew, with nothing in flight; without it, never."""

    backoff: BackoffTable = BackoffTable()
    """Pauses between attempts to connect."""

    def __post_init__(self) -> None:
        """Refuse invalid addresses, and combinations of keys that can't work."""
        _check_hosts(self.hosts)

        if self.dialect == "auto" and self.tls == "off":
            raise ValueError(
                'dialect = "auto" needs TLS, whose handshake says what the receiver speaks: name '
                "one dialect"
            )
        if self.compression == "zlib" and self.level > 3:
            raise ValueError(
                'zlib has the levels 1 to 3 here: write level = 1, or compression = "zstd"'
            )
