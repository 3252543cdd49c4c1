"""Key ranges: which segments of a stream hold which keys, and which replaced which.

Pure functions of one stream's state. A *cut* is one position in the whole stream: offsets by
segment id, one segment for each key.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from logdrive.store.streams.errors import NoSuchStreamSegmentError, PreconditionError
from logdrive.store.streams.state import CURRENT, REMOVED, Segment, Stream, StreamConfig
from logdrive.wire.pravega.names import epoch_of_id, segment_id

KeyRange = tuple[float, float]

MAX_HISTORY = 100_000
"""Limit on a stream's segments, past ones included, unless truncated: its record has them all."""


def new_stream(config: StreamConfig, count: int, first_number: int, now_ms: int) -> Stream:
    """Return a stream of *count* equal key ranges that begins at *now_ms*."""
    bounds = [n / count for n in range(count)] + [1.0]
    segments = tuple(
        Segment(segment_id(first_number + n, 0), bounds[n], bounds[n + 1]) for n in range(count)
    )
    return Stream(config, segments, (now_ms,), first_number + count)


def has_keys(segment: Segment) -> bool:
    """Return whether keys lead to *segment*."""
    return segment.low < segment.high


def open_segments(stream: Stream) -> list[Segment]:
    """Return all segments that accept appends; none of a sealed stream."""
    return (
        [segment for segment in stream.segments if segment.until == CURRENT]
        if stream.status == "active"
        else []
    )


def current_segments(stream: Stream) -> list[Segment]:
    """Return the segments that accept appends by key, one for each; none of a sealed stream."""
    return [segment for segment in open_segments(stream) if has_keys(segment)]


def segments_in_epoch(stream: Stream, epoch: int) -> list[Segment]:
    """Return the segments of one epoch, one for each key."""
    return [
        s
        for s in stream.segments
        if has_keys(s) and epoch_of_id(s.id) <= epoch and (s.until == CURRENT or s.until > epoch)
    ]


def add_keyless_segments(stream: Stream, count: int) -> Stream:
    """Return *stream* with *count* more segments, to which no keys lead: nothing else changes.

    Raises `PreconditionError` where that would be too many.
    """
    _check_history(stream, count)
    new = [Segment(segment_id(stream.next_number + n, 0), 0.0, 0.0) for n in range(count)]
    return msgspec.structs.replace(
        stream, segments=(*stream.segments, *new), next_number=stream.next_number + count
    )


def remove_keyless_segments(stream: Stream, removed: Iterable[int]) -> Stream:
    """Return *stream* with the segments *removed*, to which no keys lead, marked for deletion.

    Raises `NoSuchStreamSegmentError`, and `PreconditionError` where keys lead to one.
    """
    doomed = {segment_of(stream, number).id for number in removed}
    if any(has_keys(segment) for segment in stream.segments if segment.id in doomed):
        raise PreconditionError("a segment that keys lead to can only be replaced")
    kept = {number: offset for number, offset in stream.cut.items() if number not in doomed}
    segments = tuple(
        msgspec.structs.replace(s, until=REMOVED) if s.id in doomed else s for s in stream.segments
    )
    return msgspec.structs.replace(stream, segments=segments, cut=kept)


def segment_of(stream: Stream, segment: int) -> Segment:
    """Return the segment with the id *segment*. Raises `NoSuchStreamSegmentError`."""
    for candidate in stream.segments:
        if candidate.id == segment:
            return candidate
    raise NoSuchStreamSegmentError(f"the stream has no segment {segment}")


def successors(stream: Stream, segment: int) -> list[tuple[Segment, list[int]]]:
    """Return the segments that replaced *segment*, each with the ids of all that it replaced.

    Empty for a current segment.
    """
    before = segment_of(stream, segment)
    if before.until == CURRENT:
        return []
    after = [
        s for s in stream.segments if epoch_of_id(s.id) == before.until and _overlap(s, before)
    ]
    return [
        (s, [p.id for p in stream.segments if p.until == before.until and _overlap(p, s)])
        for s in after
    ]


def scale_stream(
    stream: Stream, sealed: Iterable[int], ranges: Sequence[KeyRange], now_ms: int
) -> Stream:
    """Return *stream* with the segments *sealed* replaced by new ones of *ranges*.

    Raises `PreconditionError` if these don't fit.
    """
    replaced_ids = set(sealed)
    current = current_segments(stream)
    replaced = [s for s in current if s.id in replaced_ids]
    if not replaced or len(replaced) != len(replaced_ids):
        raise PreconditionError("only current segments can be replaced")
    if _join_ranges(ranges) != _join_ranges([(s.low, s.high) for s in replaced]):
        raise PreconditionError(
            "the new key ranges must be those of the segments that they replace, without "
            "gap or overlap"
        )
    _check_history(stream, len(ranges))
    epoch = len(stream.epochs)
    kept = [
        msgspec.structs.replace(s, until=epoch) if s.id in replaced_ids else s
        for s in stream.segments
    ]
    new = [
        Segment(segment_id(stream.next_number + n, epoch), low, high)
        for n, (low, high) in enumerate(sorted(ranges))
    ]
    return msgspec.structs.replace(
        stream,
        segments=(*kept, *new),
        epochs=(*stream.epochs, now_ms),
        next_number=stream.next_number + len(new),
    )


def head_cut(stream: Stream) -> dict[int, int]:
    """Return the cut at which the stream begins."""
    cut = dict(stream.cut) or {s.id: 0 for s in segments_in_epoch(stream, 0)}
    return {s.id: 0 for s in _keyless(stream)} | cut


def cut_at_time(stream: Stream, time_ms: int) -> dict[int, int]:
    """Return a cut at or before what was written at *time_ms*.

    It is the beginning of the segments of that time, or of the stream.
    """
    epoch = max(
        (number for number, began in enumerate(stream.epochs) if began <= time_ms), default=0
    )
    begin, segments = head_cut(stream), _left_of_epoch(stream, epoch)
    # part of that epoch was cut off: the stream begins later
    if not _is_whole(segments):
        return begin
    return {s.id: begin.get(s.id, 0) for s in (*segments, *_keyless(stream))}


def cut_reached(stream: Stream, positions: Mapping[int, int]) -> list[tuple[Segment, int]]:
    """Return a cut that includes everything before *positions*, as segments with offsets.

    *positions* has segments of any epochs, and how far each was written. The cut may be further on
    than necessary: it is in the latest epoch of *positions*, or in the present one if part of that
    epoch is cut off.
    """
    latest = max((epoch_of_id(number) for number in positions), default=0)
    segments = _left_of_epoch(stream, latest)
    if not _is_whole(segments):
        segments = segments_in_epoch(stream, len(stream.epochs) - 1)
    return [(segment, positions.get(segment.id, 0)) for segment in segments]


def check_cut(stream: Stream, cut: Mapping[int, int]) -> None:
    """Raise `PreconditionError` unless *cut* has all keys and is not before the stream's start."""
    segments = [segment_of(stream, number) for number in cut]
    if any(offset < 0 for offset in cut.values()) or not _is_whole(segments):
        raise PreconditionError("a cut has one offset for each key")
    cut_off = {s.id for s in segments_before(stream, stream.cut)}
    if any(s.id in cut_off or cut[s.id] < stream.cut.get(s.id, 0) for s in segments):
        raise PreconditionError("the stream begins after this cut")


def segments_before(stream: Stream, cut: Mapping[int, int]) -> list[Segment]:
    """Return the segments all of whose bytes are before *cut*."""
    places = [s for s in stream.segments if s.id in cut]
    return [
        s
        for s in stream.segments
        if s.id not in cut
        and s.until != CURRENT
        and any(epoch_of_id(p.id) >= s.until and _overlap(s, p) for p in places)
    ]


def segments_after(stream: Stream, cut: Mapping[int, int]) -> list[Segment]:
    """Return the segments all of whose bytes are after *cut*."""
    places = [s for s in stream.segments if s.id in cut and s.until != CURRENT]
    return [
        s
        for s in stream.segments
        if s.id not in cut and any(epoch_of_id(s.id) >= p.until and _overlap(s, p) for p in places)
    ]


def offsets_needed(stream: Stream, cut: Mapping[int, int]) -> dict[int, int]:
    """Return the offsets from which segments have bytes after *cut*, by id.

    Segments without such bytes are missing, as are those without keys that *cut* leaves out: they
    may have been added later, and nothing leads a reader there.
    """
    begin = cut or head_cut(stream)
    before = {s.id for s in segments_before(stream, begin)}
    return {
        s.id: begin.get(s.id, 0)
        for s in stream.segments
        if s.id not in before and (has_keys(s) or s.id in begin)
    }


def segments_between(
    stream: Stream, begin: Mapping[int, int], end: Mapping[int, int]
) -> list[Segment]:
    """Return the segments that have bytes between two cuts.

    Raises `PreconditionError` unless *begin* is before *end*.
    """
    for cut in (begin, end):
        if not _is_whole(segment_of(stream, number) for number in cut):
            raise PreconditionError("a cut has one offset for each key")
    before, after = (
        {s.id for s in segments_before(stream, begin)},
        {s.id for s in segments_after(stream, end)},
    )
    if (
        before & end.keys()
        or after & begin.keys()
        or any(offset < begin.get(number, 0) for number, offset in end.items())
    ):
        raise PreconditionError("the second cut lies before the first")
    return [
        s
        for s in stream.segments
        if s.id not in before and s.id not in after and s.until != REMOVED
    ]


def _left_of_epoch(stream: Stream, epoch: int) -> list[Segment]:
    """Return the segments of one epoch that are not cut off.

    An open transaction keeps the others' names, too.
    """
    cut_off = {segment.id for segment in segments_before(stream, stream.cut)}
    return [segment for segment in segments_in_epoch(stream, epoch) if segment.id not in cut_off]


def _keyless(stream: Stream) -> list[Segment]:
    return [s for s in stream.segments if not has_keys(s) and s.until == CURRENT]


def _check_history(stream: Stream, more: int) -> None:
    if len(stream.segments) + more > MAX_HISTORY:
        raise PreconditionError(
            f"the stream has {len(stream.segments)} segments, past ones counted: truncate it first"
        )


def _overlap(one: Segment, other: Segment) -> bool:
    return one.low < other.high and other.low < one.high


def _is_whole(segments: Iterable[Segment]) -> bool:
    return _join_ranges([(s.low, s.high) for s in segments if has_keys(s)]) == [(0.0, 1.0)]


def _join_ranges(ranges: Iterable[KeyRange]) -> list[KeyRange]:
    """Return *ranges* in order, with adjacent ones joined.

    Overlapping or empty ranges stay as they are, so the result equals no valid list.
    """
    joined: list[KeyRange] = []
    for low, high in sorted(ranges):
        if low < high and joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined
