"""S2's data plane as JSON. See docs/protocols/s2.md#json.

JSON has no bytes, so header names, header values and bodies travel in one of two formats: as text
(raw), where what is not UTF-8 is lost, or in base64.
"""

import binascii
from base64 import b64encode
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec
import orjson

from logdrive.wire.s2.documents import decode_document
from logdrive.wire.s2.errors import bad_header, bad_json, invalid
from logdrive.wire.s2.limits import FENCING_TOKEN_BYTES, U64_MAX
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


class Format(Enum):
    """How bytes become JSON strings: the values of the header `s2-format`."""

    RAW = "raw"
    BASE64 = "base64"


_FORMATS: Final = {
    "raw": Format.RAW,
    "json": Format.RAW,  # the older names
    "base64": Format.BASE64,
    "json-binsafe": Format.BASE64,
}


class _Position(msgspec.Struct):
    seq_num: int
    timestamp: int


class _Record(msgspec.Struct):
    body: str = ""
    headers: list[tuple[str, str]] = []
    timestamp: int | None = None


class _AppendInput(msgspec.Struct):
    records: list[_Record]
    match_seq_num: int | None = None
    fencing_token: str | None = None


class _AppendAck(msgspec.Struct):
    start: _Position
    end: _Position
    tail: _Position


class _SequencedRecord(msgspec.Struct):
    seq_num: int
    timestamp: int
    headers: list[tuple[str, str]] = []
    body: str = ""


class _ReadBatch(msgspec.Struct):
    records: list[_SequencedRecord]
    tail: _Position | None = None


class _Tail(msgspec.Struct):
    tail: _Position


class _ListedStream(msgspec.Struct):
    name: str


class _StreamList(msgspec.Struct):
    streams: list[_ListedStream]


_APPEND_INPUT: Final = msgspec.json.Decoder(_AppendInput)
_APPEND_ACK: Final = msgspec.json.Decoder(_AppendAck)
_READ_BATCH: Final = msgspec.json.Decoder(_ReadBatch)
_TAIL: Final = msgspec.json.Decoder(_Tail)
_STREAMS: Final = msgspec.json.Decoder(_StreamList)


def parse_format(header: str | None) -> Format:
    """Return the format that `s2-format` asks for; raise `S2Error`, bad_header."""
    if header is None:
        return Format.RAW
    found = _FORMATS.get(header.strip().lower())
    if found is None:
        raise bad_header(f"s2-format is raw or base64, not {header[:32]!r}")
    return found


def decode_append_input(data: bytes, form: Format) -> AppendInput:
    """Return the append in *data*; limits on sizes are `check_input`'s to judge.

    Raises `S2Error`: bad_json, or 422 for what is not base64 where it should be.
    """
    read = decode_document(_APPEND_INPUT, data)
    check_count(len(read.records))
    to_bytes = _BYTES[form]
    records = tuple(
        [
            Record(
                to_bytes(record.body),
                tuple([(to_bytes(name), to_bytes(value)) for name, value in record.headers]),
                None if record.timestamp is None else _u64(record.timestamp, "timestamp"),
            )
            for record in read.records
        ]
    )
    token = read.fencing_token
    if token is not None and len(token.encode()) > FENCING_TOKEN_BYTES:
        raise bad_json(f"fencing_token has over {FENCING_TOKEN_BYTES} bytes")
    match = read.match_seq_num
    return AppendInput(records, None if match is None else _u64(match, "match_seq_num"), token)


def encode_append_input(append: AppendInput, form: Format) -> bytes:
    """Return the body of a request to append."""
    to_text = _TEXT[form]
    document: dict[str, object] = {
        "records": [
            {
                "body": to_text(record.body),
                **({"headers": _header_texts(record.headers, to_text)} if record.headers else {}),
                **({} if record.timestamp is None else {"timestamp": record.timestamp}),
            }
            for record in append.records
        ]
    }
    if append.match_seq_num is not None:
        document["match_seq_num"] = append.match_seq_num
    if append.fencing_token is not None:
        document["fencing_token"] = append.fencing_token
    return orjson.dumps(document)


def encode_append_ack(ack: AppendAck) -> bytes:
    """Return the body of the answer to an append."""
    return msgspec.json.encode(ack)


def decode_append_ack(data: bytes) -> AppendAck:
    """Return the acknowledgement in *data*; raise `S2Error`, bad_json."""
    read = decode_document(_APPEND_ACK, data)
    return AppendAck(*map(_position, (read.start, read.end, read.tail)))


def encode_read_batch(batch: ReadBatch, form: Format) -> bytes:
    """Return the body of the answer to a read, or the data of an event."""
    to_text = _TEXT[form]
    document: dict[str, object] = {
        "records": [_record_document(record, to_text) for record in batch.records]
    }
    if batch.tail is not None:
        document["tail"] = _position_document(batch.tail)
    return orjson.dumps(document)


def decode_read_batch(data: bytes, form: Format) -> ReadBatch:
    """Return the batch in *data*; raise `S2Error` as `decode_append_input` does."""
    read = decode_document(_READ_BATCH, data)
    to_bytes = _BYTES[form]
    records = tuple(
        [
            SequencedRecord(
                _u64(record.seq_num, "seq_num"),
                _u64(record.timestamp, "timestamp"),
                tuple([(to_bytes(name), to_bytes(value)) for name, value in record.headers]),
                to_bytes(record.body),
            )
            for record in read.records
        ]
    )
    return ReadBatch(records, None if read.tail is None else _position(read.tail))


def encode_tail(tail: StreamPosition) -> bytes:
    """Return the body of the answer to a check of the tail."""
    return msgspec.json.encode({"tail": tail})


def decode_tail(data: bytes) -> StreamPosition:
    """Return the tail in *data*; raise `S2Error`, bad_json."""
    return _position(decode_document(_TAIL, data).tail)


def decode_stream_names(data: bytes) -> list[str]:
    """Return the names in *data*, a list of streams; raise `S2Error`, bad_json."""
    return [one.name for one in decode_document(_STREAMS, data).streams]


def _record_document(record: SequencedRecord, to_text: Callable[[bytes], str]) -> dict[str, object]:
    document: dict[str, object] = {"seq_num": record.seq_num, "timestamp": record.timestamp}
    if record.headers:
        document["headers"] = _header_texts(record.headers, to_text)
    if record.body:
        document["body"] = to_text(record.body)
    return document


def _header_texts(headers: Headers, to_text: Callable[[bytes], str]) -> list[list[str]]:
    return [[to_text(name), to_text(value)] for name, value in headers]


def _position_document(position: StreamPosition) -> dict[str, int]:
    return {"seq_num": position.seq_num, "timestamp": position.timestamp}


def _position(read: _Position) -> StreamPosition:
    return StreamPosition(_u64(read.seq_num, "seq_num"), _u64(read.timestamp, "timestamp"))


def _u64(number: int, name: str) -> int:
    if not 0 <= number <= U64_MAX:
        raise bad_json(f"{name} is not from 0 to {U64_MAX}")
    return number


def _from_base64(text: str) -> bytes:
    try:
        data = binascii.a2b_base64(text)
    except ValueError as error:
        raise invalid(f"a string that is not base64: {error}") from error
    if _to_base64(data) != text:  # each value has one text; the line above ignores other characters
        raise invalid("a string that is not base64")
    return data


def _to_base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _to_raw(data: bytes) -> str:
    return data.decode(errors="replace")


_BYTES: Final[dict[Format, Callable[[str], bytes]]] = {
    Format.RAW: str.encode,
    Format.BASE64: _from_base64,
}
_TEXT: Final[dict[Format, Callable[[bytes], str]]] = {
    Format.RAW: _to_raw,
    Format.BASE64: _to_base64,
}
