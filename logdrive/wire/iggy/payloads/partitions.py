"""Layouts of partitions: requests 102, 402, 403 and 503, and partitions in replies."""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.payloads.fields import BOOL, U32, U64, to_end
from logdrive.wire.iggy.payloads.naming import IDENTIFIER, PARTITION
from logdrive.wire.iggy.payloads.shapes import Shape, at
from logdrive.wire.iggy.replies import PartitionInfo

_STREAM: Final = at("stream", IDENTIFIER)
_TOPIC: Final = at("topic", IDENTIFIER)

PARTITION_REQUESTS: Final = (
    Shape(
        requests.FlushPartition,
        _STREAM,
        _TOPIC,
        at("partition", PARTITION),
        at("fsync", BOOL),
    ),
    Shape(requests.CreatePartitions, _STREAM, _TOPIC, at("count", U32)),
    Shape(requests.DeletePartitions, _STREAM, _TOPIC, at("count", U32)),
    Shape(
        requests.DeleteSegments,
        _STREAM,
        _TOPIC,
        at("partition", PARTITION),
        at("count", U32),
    ),
)

PARTITIONS_INFO: Final = to_end(
    Shape(
        PartitionInfo,
        at("index", PARTITION),
        at("created_us", U64),
        at("segments", U32),
        at("current_offset", U64),
        at("size", U64),
        at("messages", U64),
    )
)
