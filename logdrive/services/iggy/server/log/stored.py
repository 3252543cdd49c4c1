"""Reads whole events of a partition, with their offsets and times."""

from typing import Final, NamedTuple

from logdrive.model.framing import EVENT_HEAD, Part
from logdrive.services.iggy.server.log.foreign import omitted
from logdrive.services.numbering.positions import Position
from logdrive.services.numbering.walk import read_event, walk
from logdrive.store.engine import Store
from logdrive.wire.iggy.limits import PAYLOAD_BYTES

LONGEST: Final = PAYLOAD_BYTES
"""Limit on the bytes of an event that is shown as a message; other faces may write longer ones."""


class StoredRun(NamedTuple):
    """Whole *events* of one append, from *begin* to *end*; appended at *time_ms* (since 1970)."""

    begin: Position
    end: Position
    events: Part
    time_ms: int


def read_runs(
    store: Store, segment: str, begin: Position, end: Position, wanted: int
) -> list[StoredRun]:
    """Return about *wanted* bytes of events from *begin* on, at least one event before *end*.

    Nothing where there is no whole one. Events that are longer than any message may be are replaced
    by one that says how long they are. Raises `NotEventsError`, and what `Store.read` raises.
    """
    runs: list[StoredRun] = []
    if begin.offset >= end.offset:
        return runs
    at = begin
    limit = min(wanted, end.offset - begin.offset)
    for time_ms, part in store.read_appends(segment, begin.offset, limit):
        behind = walk(segment, at, time_ms, part)
        size = behind.offset - at.offset
        if size:
            runs.append(StoredRun(at, behind, memoryview(part)[:size], time_ms))
        if size < len(part):
            break
        at = behind
    return runs or _read_long(store, segment, begin, end)


def _read_long(store: Store, segment: str, begin: Position, end: Position) -> list[StoredRun]:
    """Return an event that is longer than what was read, or is in several appends."""
    event = read_event(store, begin, segment, end.offset)
    if event is None:
        return []
    if event.length > LONGEST:
        events = omitted(event.length)
    else:
        events = store.read(segment, begin.offset, EVENT_HEAD + event.length)
    return [StoredRun(begin, event.behind, events, event.time_ms)]
