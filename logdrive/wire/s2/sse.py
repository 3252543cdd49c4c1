"""Server-sent events of a read. See docs/protocols/s2.md#server-sent-events."""

from typing import Final

import msgspec
import orjson

from logdrive.wire.s2.errors import S2Error, bad_header
from logdrive.wire.s2.json import Format, encode_read_batch
from logdrive.wire.s2.limits import U64_MAX
from logdrive.wire.s2.records import ReadBatch, StreamPosition

DONE: Final = b"data: [DONE]\n\n"
"""The event that ends a read for which all was sent."""


class LastEventId(msgspec.Struct, frozen=True, gc=False):
    """How far a reader has come: its last record's number, and the sums of records and of metered
    bytes since the first request.
    """

    seq_num: int
    count: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.seq_num},{self.count},{self.bytes}"


def parse_last_event_id(header: str) -> LastEventId:
    """Return what the header `last-event-id` says; raise `S2Error`, bad_header."""
    fields = header.strip().split(",")
    if len(fields) != 3 or not all(
        len(field) <= 20 and field.isascii() and field.isdigit() for field in fields
    ):
        raise bad_header("last-event-id is SEQ_NUM,COUNT,BYTES")
    read = LastEventId(*map(int, fields))
    if max(read.seq_num, read.count, read.bytes) > U64_MAX:
        raise bad_header(f"a number in last-event-id is over {U64_MAX}")
    return read


def encode_batch(batch: ReadBatch, event_id: LastEventId, form: Format) -> bytes:
    """Return the event of a batch with records; *event_id* counts them, too."""
    return b"event: batch\nid: %b\ndata: %b\n\n" % (
        str(event_id).encode(),
        encode_read_batch(batch, form),
    )


def encode_ping(timestamp: int, tail: StreamPosition) -> bytes:
    """Return the event of a heartbeat at *timestamp*, in milliseconds since 1970."""
    data = {
        "timestamp": timestamp,
        "tail": {"seq_num": tail.seq_num, "timestamp": tail.timestamp},
    }
    return b"event: ping\ndata: %b\n\n" % orjson.dumps(data)


def encode_error(error: S2Error) -> bytes:
    """Return the event that ends a read with *error*; `DONE` does not follow it."""
    return b"event: error\ndata: %b\n\n" % error.body()
