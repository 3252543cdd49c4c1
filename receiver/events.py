"""The events of plain Lumberjack peers as records: v1 pairs as JSON, runs cut to size, records too long set apart (rule R3)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from logdrive.limits import RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.record import EVENT_HEAD
from logdrive.wire.lumberjack.frames import LENGTH, Data, JsonRun, framed_pieces


@dataclass(frozen=True, slots=True)
class Chunk:
    """The records of one batch, as Pravega events back to back."""

    framed: bytes
    records: int


@dataclass(frozen=True, slots=True)
class TooLong:
    """A record over the limit."""

    payload: bytes


def record_of(event: Data) -> bytes:
    """Return a v1 event as JSON, keys as they came (flat, dots and all); a key that comes twice has all its values, in a list."""
    record: dict[str, str | list[str]] = {}
    for key, value in event.pairs:
        known = record.get(key)
        if known is None:
            record[key] = value
        elif isinstance(known, list):
            known.append(value)
        else:
            record[key] = [known, value]
    return orjson.dumps(record)


def chunks(events: Iterable[Data | JsonRun]) -> Iterator[Chunk | TooLong]:
    """Cut *events*, in order, into chunks that fit one batch each. Costs one join a chunk where all records are short."""
    pieces: list[bytes] = []
    for event in events:
        pieces += event.pieces if isinstance(event, JsonRun) else [piece_of(record_of(event))]
    for start in range(0, len(pieces), RUN_RECORDS):
        part = pieces[start : start + RUN_RECORDS]
        framed = framed_pieces(part)
        if len(framed) <= RECORD_BYTES:  # so no record is longer
            yield Chunk(framed, len(part))
        else:
            yield from _by_size(part)


def piece_of(record: bytes) -> bytes:
    """Return *record* with its length before it."""
    return LENGTH.pack(len(record)) + record


def _by_size(pieces: list[bytes]) -> Iterator[Chunk | TooLong]:
    part: list[bytes] = []
    size = 0
    for piece in pieces:
        length = len(piece) - LENGTH.size
        too_long = length > RECORD_BYTES
        if part and (too_long or size + EVENT_HEAD + length > RUN_BYTES):
            yield Chunk(framed_pieces(part), len(part))
            part, size = [], 0
        if too_long:
            yield TooLong(piece[LENGTH.size :])
        else:
            part.append(piece)
            size += EVENT_HEAD + length
    if part:
        yield Chunk(framed_pieces(part), len(part))
