"""The events of plain Lumberjack peers as records: v1 pairs as JSON, runs cut to size, records too long set apart (rule R3)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from logdrive.limits import RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.wire.lumberjack.frames import LENGTH, Data, JsonRun

_LENGTH = LENGTH.size


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records for one batch: *pieces* are u32 length and payload each, *size* is what they take in Pravega framing."""

    pieces: list[bytes]
    size: int


@dataclass(frozen=True, slots=True)
class TooLong:
    """A record over the limit."""

    payload: bytes


def record_of(event: Data) -> bytes:
    """Return a v1 event as JSON, keys as they came (flat, dots and all); a key that comes twice has all its values, in a list."""
    record: dict[str, str | list[str]] = {}
    for key, value in event.pairs:
        known = record.get(key)
        record[key] = value if known is None else [*known, value] if isinstance(known, list) else [known, value]
    return orjson.dumps(record)


def chunks(events: Iterable[Data | JsonRun]) -> Iterator[Chunk | TooLong]:
    """Cut *events*, in order, into chunks that fit one batch each. Costs one slice of a list a chunk where all records are short."""
    pieces: list[bytes] = []
    for event in events:
        if isinstance(event, JsonRun):
            pieces += event.pieces
        else:
            record = record_of(event)
            pieces.append(LENGTH.pack(len(record)) + record)
    for start in range(0, len(pieces), RUN_RECORDS):
        part = pieces[start : start + RUN_RECORDS]
        size = _framed(part)
        if size <= RECORD_BYTES:
            yield Chunk(part, size)
        else:
            yield from _by_size(part)


def _framed(pieces: list[bytes]) -> int:
    return sum(map(len, pieces)) + _LENGTH * len(pieces)


def _by_size(pieces: list[bytes]) -> Iterator[Chunk | TooLong]:
    part: list[bytes] = []
    size = 0
    for piece in pieces:
        length = len(piece) + _LENGTH
        if part and (size + length > RUN_BYTES or len(piece) - _LENGTH > RECORD_BYTES):
            yield Chunk(part, size)
            part, size = [], 0
        if len(piece) - _LENGTH > RECORD_BYTES:
            yield TooLong(piece[_LENGTH:])
        else:
            part.append(piece)
            size += length
    if part:
        yield Chunk(part, size)
