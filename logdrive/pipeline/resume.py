"""Where reading begins: where the tables end, in segments that still agree with them (rule R5).

New tables end at the segments' starts, or, if they are to begin at a time, at the first batches
that were received then (`begin_tables`).

The tables are the only memory of a run. Four things may have happened since they were written:

- nothing, or more batches were appended: reading goes on where the table ends;
- the store was restored from a backup, and the last headers that were read are no longer in the
  segment: the tables are rolled back to the last header that still is, and what follows is read
  again (rows of batches that come back unchanged are recognized and not doubled);
- the address is that of another store, which is refused (`same_store.py`);
- retention cut the segment beyond the tables' end: the bytes between are lost to these tables, and
  reading goes on at the segment's start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from logdrive.errors import ConfigError, Mistake
from logdrive.pipeline.bronze.beginnings import Beginning, time_text
from logdrive.pipeline.bronze.history import KnownHeader
from logdrive.pipeline.bronze.removed import EPOCH_MARK
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.read.offsets import NO_UNFINISHED, Point, Progress
from logdrive.pipeline.read.start import Start, find_beginning
from logdrive.pipeline.same_store import find_valid, refuse_other_store
from logdrive.services.reader import SegmentState, ServiceReader


def require_segments(stream: ServiceReader, uri: str) -> list[SegmentState]:
    """Return the states of the stream's segments.

    Raises `ConfigError`, which names *uri*, if there is no such stream, and `TransientError`.
    """
    if states := stream.list_segments():
        return states
    remedy = f"there is no stream {stream.name}: compare `[sink] uri` of the receiver"
    raise ConfigError("pipeline", [Mistake("from", uri, remedy)])


def begin_tables(
    stream: ServiceReader, tables: Bronze, start: Start | None, uri: str, now_ms: int
) -> None:
    """Let *tables* begin at *start*, if they have nothing of *stream* yet.

    Tables that have something go on as they were begun. Raises `ConfigError` if *start* is a time
    and they were begun otherwise, or it lies ahead of *now_ms*; `StorageError`, `TransientError`.
    """
    if start is None:
        return
    log, states = structlog.get_logger("logdrive.pipeline"), require_segments(stream, uri)
    begun = [one.start_ms for one in tables.beginnings.values() if one.stream == stream.name]
    if begun:
        if start.time_ms not in (None, max(begun)):
            raise _refused(
                start,
                f"these tables begin at {time_text(max(begun))}: write that, or leave `start` out. "
                "`logdrive pipeline backfill` fills what lies before it; to begin later, fill "
                "another directory",
            )
        return
    if any(tables.has_read(state.segment) for state in states) or tables.has_stream(stream.name):
        if start.time_ms is not None:
            raise _refused(
                start,
                "these tables were begun with the stream: leave `start` out, or fill another "
                "directory",
            )
        log.warning(
            "start is for new tables: these were begun with the stream, and go on", start=start.text
        )
        return

    time_ms = start.resolve(now_ms)
    if time_ms > now_ms:
        raise _refused(start, "this lies in the future: tables begin with what is stored")
    beginnings = [
        Beginning(stream.name, state.segment, find_beginning(stream, state, time_ms), time_ms)
        for state in states
    ]
    tables.begin_at(beginnings)
    log.info(
        "new tables begin at a time; `logdrive pipeline backfill` fills what lies before it, as "
        "long as the stream keeps that",
        time=time_text(time_ms),
        before=sum(one.offset - state.start for one, state in zip(beginnings, states, strict=True)),
    )


def _refused(start: Start, remedy: str) -> ConfigError:
    return ConfigError("pipeline", [Mistake("start", start.text, remedy)])


@dataclass(frozen=True, slots=True)
class FoundStart:
    """Where reading begins, in all segments."""

    progress: Progress
    unread: int
    """How many offsets lie behind that place."""
    removed: int
    """How many before it were removed before they were read, and were not noted by a run before."""


def find_start(
    stream: ServiceReader, tables: Bronze, uri: str, *, replaced_store: bool = False
) -> FoundStart:
    """Return where the next query begins, and note what was removed before it.

    Prepares *tables* to go on there. A stream of another store than theirs is read from its start
    with *replaced_store*, else refused. Raises `ConfigError`, `TransientError`, `StorageError`.
    """
    points: dict[int, Point] = {}
    unread = removed = 0
    for state in require_segments(stream, uri):
        refuse_other_offsets(tables.has_read, state.segment, uri)
        chain = tables.header_chain(state.segment)
        valid = find_valid(stream, state, chain)
        if not replaced_store:
            refuse_other_store(stream, tables.batches, state, uri, chain, valid)
        point, missing = _resume_segment(stream, tables, state, chain, valid)
        points[stream.segment_number(state.segment)] = point
        unread += max(0, state.length - point.next)
        removed += missing
    return FoundStart(Progress(points, {}), unread, removed)


def refuse_other_offsets(has_read: Callable[[str], bool], segment: str, uri: str) -> None:
    """Raise `ConfigError` if the tables have *segment* by a protocol whose offsets count otherwise.

    *has_read* says whether they have a segment by a name. They would read all of it again, and what
    has no position would be in them twice.
    """
    for other in _names_elsewhere(segment):
        if has_read(other):
            remedy = (
                f"these tables were begun over another protocol, where this is {other} and offsets "
                f"count {'bytes' if EPOCH_MARK in other else 'records'}: go on with the address "
                "that they were begun with, or use another directory"
            )
            raise ConfigError("pipeline", [Mistake("from", uri, remedy)])


def _names_elsewhere(segment: str) -> tuple[str, ...]:
    """Return the names that *segment* of a store has in protocols whose offsets count otherwise.

    Pravega's `scope/stream/0.#epoch.0` counts bytes. It is S2's `scope/stream`, or, of several, its
    `scope/stream/0`, which count records.
    """
    numbered, epoch, _ = segment.partition(EPOCH_MARK)
    if epoch:
        return numbered, numbered.rpartition("/")[0]
    return f"{segment}{EPOCH_MARK}0", f"{segment}/0{EPOCH_MARK}0"


def _resume_segment(
    stream: ServiceReader,
    tables: Bronze,
    state: SegmentState,
    chain: Sequence[KnownHeader],
    valid: Sequence[KnownHeader],
) -> tuple[Point, int]:
    """Return where to go on in one segment, and `FoundStart.removed` of it."""
    log = structlog.get_logger("logdrive.pipeline")
    segment = state.segment
    last = valid[-1] if valid else None

    # The store was restored from a backup.
    if len(valid) < len(chain):
        log.warning(
            "the store lost batches that the tables have, as after a restore; reading again",
            segment=segment,
            had=chain[-1].next,
            now=last.next if last else 0,
        )
        tables.roll_back(segment, chain, last)
    if not valid and _is_behind(tables, state, chain):
        _begin_again(stream, tables, state)

    # Retention has cut more than was read.
    removed, end = 0, tables.next_offset(segment)
    if end < state.start and (removed := tables.note_removed(segment, state.start)):
        log.warning(
            f"{stream.offset_unit} were removed before they were read",
            segment=segment,
            start=end,
            end=state.start,
        )

    return point_at_end(stream, tables, segment, valid), removed


def point_at_end(
    stream: ServiceReader, tables: Bronze, segment: str, known: Sequence[KnownHeader]
) -> Point:
    """Return the point where *tables* end in *segment*, and let them go on there.

    *known* are the headers that lead up to it, in order: by the last one the segment is recognized.
    """
    tables.begin_segment(segment, known, stream.offset_unit)
    end, needed = tables.next_offset(segment), tables.needed_offset(segment)
    since = needed if needed < end else NO_UNFINISHED
    if not known:
        return Point(end, since=since)
    return Point(end, known[-1].offset, known[-1].crc, since)


def _is_behind(tables: Bronze, state: SegmentState, chain: Sequence[KnownHeader]) -> bool:
    """Return whether the store has lost what was at the tables' beginning.

    None of the headers of *chain*, which lead up to the tables' end, is in the segment.
    """
    first = tables.beginnings.get(state.segment)
    if first is None or tables.filled_offset(state.segment) >= first.offset:
        return False  # the tables have what lies before it, too: it is read from the start
    return bool(chain) or first.offset > state.length


def _begin_again(stream: ServiceReader, tables: Bronze, state: SegmentState) -> None:
    """Let the tables begin in a segment that is another one now where their time is there."""
    first = tables.beginnings[state.segment]
    offset = find_beginning(stream, state, first.start_ms)
    structlog.get_logger("logdrive.pipeline").warning(
        "the segment has other batches where these tables begin, as after a restore; they begin "
        "where it has what was received at their time",
        segment=state.segment,
        had=first.offset,
        now=offset,
    )
    tables.begin_at([replace(first, offset=offset)])
