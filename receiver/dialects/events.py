"""Events of plain Lumberjack peers as records, grouped into batches (rule R3)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import orjson

from logdrive.model.framing import EVENT_HEAD, Part
from logdrive.model.limits import RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.wire.lumberjack.frames import JsonRun, KeyValueFrame

_PARTS = 64
"""A group of more parts is copied into one part: a part is an object, which takes more memory than
a short record.
"""


@dataclass(frozen=True, slots=True)
class EventGroup:
    """The records of one batch."""

    parts: Sequence[Part]  # the records, framed as Pravega events
    size: int  # bytes of *parts*
    records: int


@dataclass(frozen=True, slots=True)
class TooLong:
    """An event over the limit of a record."""

    payload: bytes


def record_of(event: KeyValueFrame) -> bytes:
    """Return a v1 event as a JSON object.

    Keys stay as they came, dots included. A key that comes more than once gets the list of its
    values.
    """
    record: dict[str, str | list[str]] = {}
    for key, value in event.pairs:
        earlier = record.get(key)
        if earlier is None:
            record[key] = value
        elif isinstance(earlier, list):
            earlier.append(value)
        else:
            record[key] = [earlier, value]
    return orjson.dumps(record)


def group_events(events: Iterable[KeyValueFrame | JsonRun]) -> Iterator[EventGroup | TooLong]:
    """Yield *events*, in order, as groups that fit one batch each; a record too long for any batch
    comes by itself.

    A `JsonRun` is never cut: it fits a batch, or is one record that is too long.
    """
    parts: list[Part] = []
    size = records = 0
    for event in events:
        run = (
            event if isinstance(event, JsonRun) else JsonRun.of(event.sequence, [record_of(event)])
        )
        too_long = len(run) == 1 and run.size > EVENT_HEAD + RECORD_BYTES
        if parts and (too_long or size + run.size > RUN_BYTES or records + len(run) > RUN_RECORDS):
            yield _group(parts, size, records)
            parts, size, records = [], 0, 0
        if too_long:  # it comes in its place in the order: the group before it was yielded above
            yield TooLong(run.payloads[0])
        else:
            parts += run.parts
            size += run.size
            records += len(run)
    if parts:
        yield _group(parts, size, records)


def _group(parts: list[Part], size: int, records: int) -> EventGroup:
    return EventGroup(parts if len(parts) <= _PARTS else (b"".join(parts),), size, records)
