"""Layouts of sends and polls, requests 100 and 101; their messages are in `wire.iggy.messages`."""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.identifiers import Identifier, Partitioning
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.fields import BOOL, REST, U32, U64, counted
from logdrive.wire.iggy.payloads.naming import (
    CONSUMER,
    IDENTIFIER,
    OPTIONAL_PARTITION,
    PARTITION,
    PARTITIONING,
    STRATEGY,
)
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Shape, Simple, at
from logdrive.wire.iggy.replies import Polled, SendConfirmation
from logdrive.wire.iggy.requests import SendMessages
from logdrive.wire.iggy.revision import Revision


def _read_target(reader: PayloadReader) -> tuple[Identifier, Identifier, Partitioning]:
    return IDENTIFIER.read(reader), IDENTIFIER.read(reader), PARTITIONING.read(reader)


def _write_target(value: SendMessages, writer: PayloadWriter) -> None:
    IDENTIFIER.write(value.stream, writer)
    IDENTIFIER.write(value.topic, writer)
    PARTITIONING.write(value.partitioning, writer)


def read_send(reader: PayloadReader) -> SendMessages:
    """Read a send; the batch stays as it is, a view of the payload. Raises ValueError."""
    if reader.revision < Revision.R2A:
        stream, topic, partitioning = _read_target(reader)
        return SendMessages(stream, topic, partitioning, reader.view(reader.left))
    size = reader.u32()
    start = reader.at
    stream, topic, partitioning = _read_target(reader)
    count = reader.u32()
    if reader.at - start != size:
        raise ValueError(f"{reader.at - start} bytes before the messages, where {size} are told")
    return SendMessages(stream, topic, partitioning, reader.view(reader.left), count)


def write_send(value: SendMessages, writer: PayloadWriter) -> None:
    """Write a send. Raises ValueError."""
    if writer.revision < Revision.R2A:
        _write_target(value, writer)
    else:
        if value.count is None:
            raise ValueError("from R2A on a send tells the count of its messages")
        before = writer.nested()
        _write_target(value, before)
        before.u32(value.count)
        data = before.joined()
        writer.u32(len(data))
        writer.put(data)
    writer.put(value.batch)


SEND: Final[FieldCodec[SendMessages]] = Simple(read_send, write_send)
POLL: Final = Shape(
    requests.PollMessages,
    at("consumer", CONSUMER),
    at("stream", IDENTIFIER),
    at("topic", IDENTIFIER),
    at("partition", OPTIONAL_PARTITION),
    at("strategy", STRATEGY),
    at("count", U32),
    at("auto_commit", BOOL),
)

POLLED: Final = Shape(
    Polled,
    at("partition", PARTITION),
    at("current_offset", U64),
    at("count", U32),
    at("batches", REST),
)
_CONFIRMATION_BYTES: Final = 20
_CONFIRMATIONS: Final = counted(
    Shape(
        SendConfirmation,
        at("stream", U32),
        at("topic", U32),
        at("partition", U32),
        at("first_offset", U64),
    ),
    item_bytes=_CONFIRMATION_BYTES,
)


def _write_confirmations(value: tuple[SendConfirmation, ...] | None, writer: PayloadWriter) -> None:
    if writer.revision is Revision.R3 and value is not None:
        _CONFIRMATIONS.write(value, writer)


CONFIRMATIONS: Final[FieldCodec[tuple[SendConfirmation, ...] | None]] = Simple(
    _CONFIRMATIONS.read, _write_confirmations
)
"""What R3 tells of a send; the other revisions tell nothing."""
