"""The agent's configuration: parsed and checked once at start, never changed.

`config/agent.toml` explains each key.
"""

from typing import Annotated, Any, Literal

import msgspec
import orjson

from logdrive.address import host_port
from logdrive.config.bounds import Positive
from logdrive.model.limits import ATTRIBUTES_BYTES, ATTRIBUTES_DEPTH
from logdrive.model.units import GIB, KIB, MIB
from logdrive.net.settings import ClientTlsConfig
from logdrive.records.flatten import OWN_KEYS, flatten_labels
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK, WINDOW_BYTES, WINDOWS_IN_FLIGHT

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
DialectSetting = Literal["logdrive/1", "lumberjack/2", "lumberjack/1", "auto"]
RecordsSetting = Literal["packed", "block", "full"]

_LABEL_BYTES = ATTRIBUTES_BYTES - 8 * KIB
"""Limit on the JSON of an input's fields and tags.

It leaves room among the attributes for the path (4 KiB at most) and names.
"""

STATE_DIR_REMEDY = "name a directory that the agent's user may create and write to"


class AgentTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [agent] table: the agent's identity, its checkpoint, and its limits on open files."""

    state_dir: str
    """Directory of the checkpoint."""

    id: Name | None = None
    """The agent's id, part of each origin id (rule G2); by default made from the machine's id."""

    host: Name | None = None
    """The host's name, part of each origin id; by default the machine's name."""

    drain_seconds: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    """Seconds that a stop waits for acknowledgements."""

    rescan_seconds: Positive = 10.0
    """Seconds between two scans of the inputs."""

    max_open_files: Annotated[int, msgspec.Meta(ge=16)] = 8192
    """Open files above which idle ones are closed."""

    close_idle_seconds: Positive = 300.0
    """Seconds without growth after which a file is idle."""

    keep_ended_days: Positive = 7.0
    """Days that an ended source stays in the checkpoint (rule G6)."""

    keep_removed_days: Positive = 7.0
    """Days that an unread deleted file is held open (rule G1)."""

    keep_removed_bytes: Annotated[int, msgspec.Meta(ge=0)] = 32 * GIB
    """Limit on the unread bytes of deleted files that are held open, all together."""

    def __post_init__(self) -> None:
        """Refuse a relative path: it would depend on where the agent is started."""
        if not self.state_dir.startswith("/"):
            raise ValueError("state_dir must be an absolute path, as in /var/lib/logdrive-agent")


class InputTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[input]] table: a set of files, and the labels of their lines."""

    paths: Annotated[list[str], msgspec.Meta(min_length=1)]
    """Absolute paths and patterns (`agent.inputs.files.globs`)."""

    exclude: list[str] = []
    """Absolute paths and patterns of files to leave out."""

    fields: dict[str, Any] = {}
    """Values by name, which go with each line."""

    tags: list[str] = []
    """Words, which go with each line."""

    start: Literal["beginning", "end"] = "beginning"
    """Where to start in files that exist at the agent's first start (rule P2)."""

    quiet_seconds: Positive = 30.0
    """Seconds without growth after which a last line without newline is shipped (rule P3)."""

    end_after_seconds: Positive = 60.0
    """Seconds without growth after which a deleted file has ended (rule G1)."""

    def __post_init__(self) -> None:
        """Refuse relative patterns, and labels that are no JSON or exceed the attributes."""
        for pattern in (*self.paths, *self.exclude):
            if not pattern.startswith("/"):
                raise ValueError(
                    f"{pattern!r} must be an absolute path or pattern, as in /var/log/*.log"
                )

        try:
            labels = orjson.dumps([self.fields, self.tags])
        except TypeError as error:
            raise ValueError(f"fields and tags must be values that JSON has: {error}") from error
        if len(labels) > _LABEL_BYTES:
            raise ValueError(
                f"fields and tags together must stay below {_LABEL_BYTES} bytes of JSON"
            )
        if _nesting_depth(self.fields) >= ATTRIBUTES_DEPTH:
            raise ValueError(
                f"fields must have fewer than {ATTRIBUTES_DEPTH} levels of tables and lists"
            )


def _nesting_depth(value: object) -> int:
    """Return the levels of tables and lists in *value*, itself included."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(
        map(_nesting_depth, value.values() if isinstance(value, dict) else value), default=0
    )


class BackoffTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [output.backoff] table: pauses between attempts to connect, chosen at random."""

    initial_seconds: Positive = 0.5
    """Limit on the pause after the first failure; it doubles with each further one."""

    max_seconds: Positive = 30.0
    """Limit on any pause."""


class OutputTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [output] table: the receivers, and how lines are sent to them."""

    hosts: Annotated[list[str], msgspec.Meta(min_length=1)]
    """Receivers as host:port. They are tried in turn, from a random one on."""

    tls: Literal["off"] | ClientTlsConfig
    """Certificates, or "off"."""

    dialect: DialectSetting = "logdrive/1"
    """The dialect to speak, or "auto" for the best one that the receiver offers."""

    records: RecordsSetting = "packed"
    """Form of the records (rules R1, R8)."""

    compression: Literal["zstd", "zlib", "none"] = "zlib"
    """Compression of packs and windows."""

    level: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    """Level of the compression; zlib has 1 to 3 here."""

    windows_in_flight: Annotated[int, msgspec.Meta(ge=1, le=WINDOWS_IN_FLIGHT)] = 8
    """Windows sent without waiting for an acknowledgement."""

    window_bytes: Annotated[int, msgspec.Meta(ge=64 * KIB, le=WINDOW_BYTES // 2)] = 2 * MIB
    """Bytes of lines after which a window is sent."""

    connect_seconds: Positive = 10.0
    """Limit on a connection attempt, TLS included."""

    timeout_seconds: Positive = 30.0
    """Seconds of silence after which a receiver that owes an acknowledgement is given up."""

    stall_seconds: Positive = 300.0
    """The same for a receiver that sends only keepalives."""

    backoff: BackoffTable = BackoffTable()
    """Pauses between attempts to connect."""

    def __post_init__(self) -> None:
        """Refuse invalid addresses, and combinations of keys that can't work."""
        for host in self.hosts:
            host_port(host)  # raises ValueError

        if self.dialect == "auto" and self.tls == "off":
            raise ValueError(
                'dialect = "auto" needs TLS, whose handshake says what the receiver speaks: name '
                "one dialect"
            )
        if self.compression == "zlib" and self.level > 3:
            raise ValueError(
                'zlib has the levels 1 to 3 here: write level = 1, or compression = "zstd"'
            )


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole agent.toml."""

    agent: AgentTable
    """The [agent] table."""

    input: Annotated[list[InputTable], msgspec.Meta(min_length=1)]
    """The [[input]] tables; a file belongs to the first that matches it."""

    output: OutputTable
    """The [output] table."""

    def __post_init__(self) -> None:
        """Refuse fields that Lumberjack v1 can't carry if the agent may speak it."""
        if self.output.dialect not in ("lumberjack/1", "auto"):
            return
        for number, table in enumerate(self.input):
            try:
                pairs = len(flatten_labels(table.fields, table.tags)) + len(OWN_KEYS)
            except ValueError as error:
                raise ValueError(f"input: in input[{number}], {error}") from error
            if pairs > PLAIN_LUMBERJACK.pairs:
                most = PLAIN_LUMBERJACK.pairs - len(OWN_KEYS)
                raise ValueError(
                    f"input: input[{number}] has more than {most} fields, the most that "
                    f"{self.output.dialect} carries"
                )
