"""What the operator of an agent may set: parsed once at start, passed down, never changed.

`config/agent.toml` explains it.
"""

from typing import Annotated, Any, Literal

import msgspec
import orjson

from agent.records.flatten import OWN, flat
from logdrive.address import host_port
from logdrive.config.bounds import Positive
from logdrive.model.limits import ATTRIBUTES_BYTES, ATTRIBUTES_DEPTH
from logdrive.model.units import GIB, KIB, MIB
from logdrive.net.settings import ClientTlsConfig
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK, WINDOW_BYTES, WINDOWS_IN_FLIGHT

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
DialectSetting = Literal["logdrive/1", "lumberjack/2", "lumberjack/1", "auto"]

_LABEL_BYTES = ATTRIBUTES_BYTES - 8 * KIB
"""Fields and tags of an input, encoded: the path (4 KiB at most) and names still fit beside
them.
"""

STATE_DIR_REMEDY = "name a directory that the agent's user may make and write into"


class AgentTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [agent] table: who this agent is and where it keeps its checkpoint.

    *id* defaults to one made from the machine's id, *host* to the machine's name; both are part of
    every file's name.
    """

    state_dir: str
    id: Name | None = None
    host: Name | None = None
    drain_seconds: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    rescan_seconds: Positive = 10.0
    max_open_files: Annotated[int, msgspec.Meta(ge=16)] = 8192
    close_idle_seconds: Positive = 300.0
    keep_ended_days: Positive = 7.0
    keep_removed_days: Positive = 7.0
    keep_removed_bytes: Annotated[int, msgspec.Meta(ge=0)] = 32 * GIB

    def __post_init__(self) -> None:
        """Demand a place that does not depend on where the agent was started."""
        if not self.state_dir.startswith("/"):
            raise ValueError("state_dir must be an absolute path, as in /var/lib/logdrive-agent")


class InputTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[input]] table: which files, and what is said of their lines.

    *quiet_seconds* is how long a last line may lack its newline before it is shipped as it is,
    *end_after_seconds* how long a deleted file must not grow before it has ended.
    """

    paths: Annotated[list[str], msgspec.Meta(min_length=1)]
    exclude: list[str] = []
    fields: dict[str, Any] = {}
    tags: list[str] = []
    start: Literal["beginning", "end"] = "beginning"
    quiet_seconds: Positive = 30.0
    end_after_seconds: Positive = 60.0

    def __post_init__(self) -> None:
        """Demand absolute patterns and labels that fit their frame."""
        for pattern in (*self.paths, *self.exclude):
            if not pattern.startswith("/"):
                raise ValueError(
                    f"{pattern!r} must be an absolute path or pattern, as in /var/log/*.log"
                )
        try:
            labels = orjson.dumps([self.fields, self.tags])
        except TypeError as error:
            raise ValueError(f"fields and tags must be what JSON can say: {error}") from error
        if len(labels) > _LABEL_BYTES:
            raise ValueError(
                f"fields and tags together must stay below {_LABEL_BYTES} bytes of JSON"
            )
        if _depth(self.fields) >= ATTRIBUTES_DEPTH:
            raise ValueError(
                f"fields must have fewer than {ATTRIBUTES_DEPTH} tables and lists inside "
                "one another"
            )


def _depth(value: object) -> int:
    """Return how many tables and lists *value* has inside one another, itself counted."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


class BackoffTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [output.backoff] table: the ceiling of the first wait after a failure, and of any."""

    initial_seconds: Positive = 0.5
    max_seconds: Positive = 30.0


class OutputTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [output] table: where lines go and how.

    *hosts* are tried in turn, from a random one on.
    """

    hosts: Annotated[list[str], msgspec.Meta(min_length=1)]
    tls: Literal["off"] | ClientTlsConfig
    dialect: DialectSetting = "logdrive/1"
    records: Literal["block", "full"] = "block"
    compression: Literal["zstd", "zlib", "none"] = "zlib"
    level: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    windows_in_flight: Annotated[int, msgspec.Meta(ge=1, le=WINDOWS_IN_FLIGHT)] = 8
    window_bytes: Annotated[int, msgspec.Meta(ge=64 * KIB, le=WINDOW_BYTES // 2)] = 4 * MIB
    connect_seconds: Positive = 10.0
    timeout_seconds: Positive = 30.0
    stall_seconds: Positive = 300.0
    backoff: BackoffTable = BackoffTable()

    def __post_init__(self) -> None:
        """Refuse what can't be connected to, and combinations that can't work."""
        for host in self.hosts:
            host_port(host)
        if self.dialect == "auto" and self.tls == "off":
            raise ValueError(
                'dialect = "auto" needs TLS, which tells what the other side speaks: name '
                "one dialect"
            )
        if self.compression == "zlib" and self.level > 3:
            raise ValueError(
                'zlib has the levels 1 to 3 here: write level = 1, or compression = "zstd"'
            )


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole agent.toml."""

    agent: AgentTable
    input: Annotated[list[InputTable], msgspec.Meta(min_length=1)]
    output: OutputTable

    def __post_init__(self) -> None:
        """Refuse fields that Lumberjack v1 can't carry, where it may be spoken."""
        if self.output.dialect not in ("lumberjack/1", "auto"):
            return
        for number, table in enumerate(self.input):
            try:
                pairs = len(flat(table.fields, table.tags)) + len(OWN)
            except ValueError as error:
                raise ValueError(f"input: in input[{number}], {error}") from error
            if pairs > PLAIN_LUMBERJACK.pairs:
                most = PLAIN_LUMBERJACK.pairs - len(OWN)
                raise ValueError(
                    f"input: input[{number}] has more than {most} fields, the most that "
                    f"{self.output.dialect} carries"
                )
