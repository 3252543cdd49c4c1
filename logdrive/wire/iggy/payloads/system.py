"""Layouts of what concerns the server: requests 10 to 22 and their replies."""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.limits import OPTIONS_BYTES
from logdrive.wire.iggy.options import OptionScope
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.fields import (
    BYTES8,
    F32,
    TEXT8,
    TEXT32,
    U8,
    U16,
    U32,
    U64,
    choice,
    counted,
    to_end,
)
from logdrive.wire.iggy.payloads.naming import PARTITION
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Shape, Simple, at
from logdrive.wire.iggy.replies import (
    CacheMetrics,
    ClientDetails,
    ClientInfo,
    ClientTransport,
    ClusterMetadata,
    ClusterNode,
    Membership,
    OptionDescription,
    ServerStats,
)
from logdrive.wire.iggy.revision import Revision

SYSTEM_REQUESTS: Final = (
    Shape(requests.GetStats),
    Shape(requests.GetSnapshot, at("compression", U8), at("kinds", BYTES8)),
    Shape(requests.GetClusterMetadata),
    Shape(requests.DescribeOptions, at("scope", choice(OptionScope))),
    Shape(requests.GetMe),
    Shape(requests.GetClient, at("client", U32)),
    Shape(requests.GetClients),
)

_SECOND: Final = 1_000_000  # µs


def _read_time(reader: PayloadReader) -> int:
    return reader.u64() * (_SECOND if reader.revision <= Revision.R0B else 1)


def _write_time(value: int, writer: PayloadWriter) -> None:
    writer.u64(value // _SECOND if writer.revision <= Revision.R0B else value)


_TIME: Final[FieldCodec[int]] = Simple(_read_time, _write_time)  # R0 tells whole seconds
_METRICS_BYTES: Final = 32
_METRICS: Final = Shape(
    CacheMetrics,
    at("stream", U32),
    at("topic", U32),
    at("partition", PARTITION),
    at("hits", U64),
    at("misses", U64),
    at("ratio", F32),
)
STATS: Final = Shape(
    ServerStats,
    at("process", U32),
    at("cpu", F32),
    at("total_cpu", F32, first=Revision.R1),
    at("memory", U64),
    at("memory_total", U64),
    at("memory_available", U64),
    at("run_time_us", _TIME),
    at("start_time_us", _TIME),
    at("read_bytes", U64),
    at("written_bytes", U64),
    at("size", U64),
    at("streams", U32),
    at("topics", U32),
    at("partitions", U32),
    at("segments", U32),
    at("messages", U64),
    at("clients", U32),
    at("groups", U32),
    at("hostname", TEXT32),
    at("os_name", TEXT32),
    at("os_version", TEXT32),
    at("kernel", TEXT32),
    at("version", TEXT32, first=Revision.R1),
    at("semver", U32, first=Revision.R1),
    at("caches", counted(_METRICS, item_bytes=_METRICS_BYTES), first=Revision.R1),
    at("threads", U32, first=Revision.R2A),
    at("disk_free", U64, first=Revision.R2A),
    at("disk_total", U64, first=Revision.R2A),
)

CLIENT: Final = Shape(
    ClientInfo,
    at("id", U32),
    at("user_id", U32, first=Revision.R0B),
    at("transport", choice(ClientTransport)),
    at("address", TEXT32),
    at("groups", U32),
)
CLIENTS: Final = to_end(CLIENT)
_MEMBERSHIP: Final = Shape(Membership, at("stream", U32), at("topic", U32), at("group", U32))
CLIENT_DETAILS: Final = Shape(
    ClientDetails,
    at("client", CLIENT),
    at("memberships", to_end(_MEMBERSHIP)),
)

_NODE_BYTES: Final = 18
_NODE: Final = Shape(
    ClusterNode,
    at("name", TEXT32),
    at("ip", TEXT32),
    at("tcp", U16),
    at("quic", U16),
    at("http", U16),
    at("websocket", U16),
    at("role", U8),
    at("status", U8),
)
CLUSTER: Final = Shape(
    ClusterMetadata,
    at("name", TEXT32),
    at("nodes", counted(_NODE, item_bytes=_NODE_BYTES)),
)


def _read_bytes32(reader: PayloadReader) -> bytes:
    size = reader.u32()
    if size > OPTIONS_BYTES:
        raise ValueError(f"{size} bytes; at most {OPTIONS_BYTES} are taken")
    return reader.take(size)


def _write_bytes32(value: bytes, writer: PayloadWriter) -> None:
    writer.u32(len(value))
    writer.put(value)


_DESCRIPTION_BYTES: Final = 10
DESCRIPTIONS: Final = counted(
    Shape(
        OptionDescription,
        at("key", TEXT8),
        at("kind", U8),
        at("default", Simple(_read_bytes32, _write_bytes32)),
        at("description", TEXT32),
    ),
    item_bytes=_DESCRIPTION_BYTES,
)
SNAPSHOT: Final[FieldCodec[bytes]] = Simple(
    lambda reader: reader.take(reader.left), lambda value, writer: writer.put(value)
)
