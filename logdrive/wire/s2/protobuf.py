"""S2's messages as protobuf. See docs/protocols/s2.md#messages.

A *fragment* is a `SequencedRecord` without its number: fields 2 to 4 as they travel. A store keeps
fragments, and `encode_read_batch_from` puts numbers before them, so that no record is encoded again
when it is read.

Decoding is upb's, in C; what Python adds is one object a record. All functions here cost less than
1 µs for a record without headers.
"""

from collections.abc import Callable, Iterable
from typing import Final

from google.protobuf.message import DecodeError

from logdrive.wire.s2 import messages_pb2 as pb
from logdrive.wire.s2.errors import S2Error, bad_frame, bad_proto
from logdrive.wire.s2.records import (
    AppendAck,
    AppendInput,
    Headers,
    ReadBatch,
    Record,
    SequencedRecord,
    StreamPosition,
    check_count,
)

Conditions = tuple[int | None, str | None]
"""`match_seq_num` and `fencing_token` of an append."""

_VARINTS: Final = [
    bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(0x4000)
]
"""The encoded numbers of up to 14 bits."""
_CONTINUED: Final = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(0x4000)]
"""The lowest 14 bits of longer ones."""

# A field's key: its number << 3, and 0 for a number, 2 for bytes.
_RECORDS: Final = b"\x0a"  # of ReadBatch, and of AppendInput
_SEQ_NUM: Final = b"\x08"  # SequencedRecord.seq_num
_TIMESTAMP: Final = b"\x10"
_HEADERS: Final = b"\x1a"
_BODY: Final = b"\x22"
_NAME: Final = b"\x0a"  # Header.name
_VALUE: Final = b"\x12"
_TAIL: Final = b"\x12"  # ReadBatch.tail
_MATCH: Final = b"\x10"  # AppendInput.match_seq_num
_TOKEN: Final = b"\x1a"  # AppendInput.fencing_token
_POSITION_SEQ_NUM: Final = b"\x08"
_POSITION_TIMESTAMP: Final = b"\x10"


def encode_varint(number: int) -> bytes:
    """Return *number*, a u64, as protobuf writes it."""
    if number < 0x4000:
        return _VARINTS[number]
    if number < 0x10000000:
        return _CONTINUED[number & 0x3FFF] + _VARINTS[number >> 14]
    return _CONTINUED[number & 0x3FFF] + encode_varint(number >> 14)


def encode_append_input(append: AppendInput) -> bytes:
    """Return *append* as it travels in an append session or in the body of a unary append."""
    parts: list[bytes] = []
    for record in append.records:
        encoded = _append_record(record)
        parts += (_RECORDS, encode_varint(len(encoded)), encoded)
    if append.match_seq_num is not None:
        parts += (_MATCH, encode_varint(append.match_seq_num))
    if append.fencing_token is not None:
        token = append.fencing_token.encode()
        parts += (_TOKEN, encode_varint(len(token)), token)
    return b"".join(parts)


def decode_append_input(data: bytes, *, framed: bool = False) -> AppendInput:
    """Return the append in *data*; limits on sizes are `check_input`'s to judge.

    Raises `S2Error`: 422 for too many records, before they become objects; for other bytes 400,
    bad_frame where the message is *framed*, else bad_proto.
    """
    message = _parse_append_input(data, framed=framed)
    return AppendInput(
        tuple(
            [
                Record(
                    record.body,
                    tuple([(h.name, h.value) for h in record.headers]) if record.headers else (),
                    record.timestamp if record.HasField("timestamp") else None,
                )
                for record in message.records
            ]
        ),
        *_conditions(message),
    )


def parse_conditions(data: bytes, *, framed: bool = False) -> Conditions:
    """Return the conditions of the append in *data*, for callers that take the records themselves.

    Raises `S2Error` as `decode_append_input` does.
    """
    return _conditions(_parse_append_input(data, framed=framed))


def parse_last_conditions(data: bytes, *, framed: bool = False) -> Conditions | None:
    """Return the conditions in *data*, the end of an append; None if there are records in it, too.

    Raises `S2Error` as `decode_append_input` does.
    """
    if not data:
        return None, None
    message = pb.AppendInput()
    _parse(message.ParseFromString, data, "AppendInput", framed=framed)
    return None if message.records else _conditions(message)


def _parse_append_input(data: bytes, *, framed: bool) -> pb.AppendInput:
    message = pb.AppendInput()
    _parse(message.ParseFromString, data, "AppendInput", framed=framed)
    check_count(len(message.records))
    return message


def _conditions(message: pb.AppendInput) -> Conditions:
    return (
        message.match_seq_num if message.HasField("match_seq_num") else None,
        message.fencing_token if message.HasField("fencing_token") else None,
    )


def encode_append_ack(ack: AppendAck) -> bytes:
    """Return *ack* as it travels."""
    parts: list[bytes] = []
    for key, position in ((b"\x0a", ack.start), (b"\x12", ack.end), (b"\x1a", ack.tail)):
        encoded = _encode_position(position)
        parts += (key, _VARINTS[len(encoded)], encoded)
    return b"".join(parts)


def decode_append_ack(data: bytes, *, framed: bool = False) -> AppendAck:
    """Return the acknowledgement in *data*; raise `S2Error` as `decode_append_input` does."""
    message = pb.AppendAck()
    _parse(message.ParseFromString, data, "AppendAck", framed=framed)
    return AppendAck(*map(_position, (message.start, message.end, message.tail)))


def encode_read_batch(batch: ReadBatch) -> bytes:
    """Return *batch* as it travels."""
    fragments = (
        (record.seq_num, record_fragment(record.timestamp, record.headers, record.body))
        for record in batch.records
    )
    return encode_read_batch_from(fragments, batch.tail)


def decode_read_batch(data: bytes, *, framed: bool = False) -> ReadBatch:
    """Return the batch in *data*; raise `S2Error` as `decode_append_input` does."""
    message = pb.ReadBatch()
    _parse(message.ParseFromString, data, "ReadBatch", framed=framed)
    return ReadBatch(
        tuple(
            [
                SequencedRecord(
                    record.seq_num,
                    record.timestamp,
                    tuple([(h.name, h.value) for h in record.headers]) if record.headers else (),
                    record.body,
                )
                for record in message.records
            ]
        ),
        _position(message.tail) if message.HasField("tail") else None,
    )


def is_read_batch(data: bytes) -> bool:
    """Return whether *data* can be decoded as a batch; costs about 20 µs for 1000 records."""
    try:
        pb.ReadBatch.FromString(data)
    except DecodeError:
        return False
    return True


def encode_tail(tail: StreamPosition) -> bytes:
    """Return the end of a `ReadBatch` with this *tail*."""
    encoded = _encode_position(tail)
    return b"".join((_TAIL, _VARINTS[len(encoded)], encoded))


def record_fragment(timestamp: int, headers: Headers, body: bytes) -> bytes:
    """Return the fragment of a record."""
    size = len(body)
    if not headers and timestamp and size:
        return b"\x10%b\x22%b%b" % (encode_varint(timestamp), encode_varint(size), body)
    return b"".join(
        (
            _TIMESTAMP + encode_varint(timestamp) if timestamp else b"",
            _headers(_HEADERS, headers),
            _BODY + encode_varint(size) + body if size else b"",
        )
    )


def record_of(seq_num: int, fragment: bytes) -> SequencedRecord:
    """Return the record with this number that *fragment* has; raise `S2Error`, bad_proto."""
    record = pb.SequencedRecord()
    _parse(record.ParseFromString, fragment, "SequencedRecord", framed=False)
    headers = tuple([(h.name, h.value) for h in record.headers]) if record.headers else ()
    return SequencedRecord(seq_num, record.timestamp, headers, record.body)


def encode_read_batch_from(
    fragments: Iterable[tuple[int, bytes]], tail: StreamPosition | None = None
) -> bytes:
    """Return a `ReadBatch` of records, each given as number and fragment, as it travels."""
    parts: list[bytes] = []
    for seq_num, fragment in fragments:
        number = _SEQ_NUM + encode_varint(seq_num) if seq_num else b""
        parts += (_RECORDS, encode_varint(len(number) + len(fragment)), number, fragment)
    if tail is not None:
        parts.append(encode_tail(tail))
    return b"".join(parts)


def _append_record(record: Record) -> bytes:
    body = record.body
    if not record.headers and record.timestamp is None:
        return b"\x1a%b%b" % (encode_varint(len(body)), body) if body else b""
    return b"".join(
        (
            b"" if record.timestamp is None else b"\x08" + encode_varint(record.timestamp),
            _headers(b"\x12", record.headers),
            b"\x1a" + encode_varint(len(body)) + body if body else b"",
        )
    )


def _headers(key: bytes, headers: Headers) -> bytes:
    """Return the headers of a record, in a field with *key*."""
    parts: list[bytes] = []
    for name, value in headers:
        header = b"".join(
            (
                _NAME + encode_varint(len(name)) + name if name else b"",
                _VALUE + encode_varint(len(value)) + value if value else b"",
            )
        )
        parts += (key, encode_varint(len(header)), header)
    return b"".join(parts)


def _encode_position(position: StreamPosition) -> bytes:
    number = _POSITION_SEQ_NUM + encode_varint(position.seq_num) if position.seq_num else b""
    if not position.timestamp:
        return number
    return number + _POSITION_TIMESTAMP + encode_varint(position.timestamp)


def _position(message: pb.StreamPosition) -> StreamPosition:
    return StreamPosition(message.seq_num, message.timestamp)


def _parse(parse: Callable[[bytes], object], data: bytes, name: str, *, framed: bool) -> None:
    error: Callable[[str], S2Error] = bad_frame if framed else bad_proto
    try:
        parse(data)
    except (DecodeError, UnicodeDecodeError):  # the second for text that is not UTF-8
        raise error(f"bytes that are no {name} message") from None
