"""The events of plain Lumberjack peers as records: v1 pairs as JSON, runs cut to size, records too
long set apart (rule R3).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import orjson

from logdrive.model.framing import EVENT_HEAD, Part
from logdrive.model.limits import RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.wire.lumberjack.frames import JsonRun, KeyValueFrame

_PARTS = 64
"""A chunk of more parts is copied into one: each is an object, which takes more memory than a short
record.
"""


@dataclass(frozen=True, slots=True)
class EventGroup:
    """The records of one batch: *size* bytes of Pravega events."""

    parts: Sequence[Part]
    size: int
    records: int


@dataclass(frozen=True, slots=True)
class TooLong:
    """An event over the limit of a record."""

    payload: bytes


def record_of(event: KeyValueFrame) -> bytes:
    """Return a v1 event as JSON, keys as they came (flat, dots and all); a key that comes twice has
    all its values, in a list.
    """
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


def chunks(events: Iterable[KeyValueFrame | JsonRun]) -> Iterator[EventGroup | TooLong]:
    """Gather *events*, in order, into chunks that fit one batch each.

    A `JsonRun` goes whole: it fits, or is too long a record.
    """
    parts: list[Part] = []
    size = records = 0
    for event in events:
        run = (
            event if isinstance(event, JsonRun) else JsonRun.of(event.sequence, [record_of(event)])
        )
        too_long = len(run) == 1 and run.size > EVENT_HEAD + RECORD_BYTES
        if parts and (too_long or size + run.size > RUN_BYTES or records + len(run) > RUN_RECORDS):
            yield _chunk(parts, size, records)
            parts, size, records = [], 0, 0
        if too_long:
            yield TooLong(run.payloads[0])
        else:
            parts += run.parts
            size += run.size
            records += len(run)
    if parts:
        yield _chunk(parts, size, records)


def _chunk(parts: list[Part], size: int, records: int) -> EventGroup:
    return EventGroup(parts if len(parts) <= _PARTS else (b"".join(parts),), size, records)
