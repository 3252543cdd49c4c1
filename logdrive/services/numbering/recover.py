"""Restores a view: from its checkpoint, or where truncation took what it was counted from.

Sequence numbers survive truncation by whomever. If the record at the segment's new start is within
what the index knows, its number is counted back from the next row. If it is beyond (others appended
and truncated what was never counted here), the store's own count of events says the number, as long
as that count has been right (receivers count lines, and merges are not counted) and the number is a
possible one. Else the highest number possible is taken, one event for each 8 bytes: a gap where
records were deleted does no harm, and a number that was shown once never names another record.
"""

import asyncio

import structlog

from logdrive.model.framing import EVENT_HEAD
from logdrive.services.numbering.checkpoint import IndexSnapshot
from logdrive.services.numbering.positions import START, Position, Positions
from logdrive.services.numbering.view import View
from logdrive.services.numbering.walk import NotEventsError, walk_stored
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError

_log = structlog.get_logger("logdrive.services.numbering")


async def restore(store: Store, segment: str, view: View, checkpoint: IndexSnapshot | None) -> None:
    """Set *view* to *checkpoint*, or to the segment's start; what follows is not added yet.

    Raises `NoSuchSegmentError`, `StorageError`, `NotEventsError`.
    """
    info = store.info(segment)
    if info is None:
        raise NoSuchSegmentError(segment)
    anchor, events = START, 0
    if checkpoint is not None and checkpoint.end.offset <= info.length:
        anchor, events = checkpoint.end, checkpoint.events
        view.token, view.trim_point = checkpoint.token, checkpoint.trim_point
        view.rows = checkpoint.rows if len(checkpoint.rows) else Positions((anchor,))
        view.end = anchor
    if info.start > anchor.offset:
        await renumber(store, segment, view, anchor, events)
    elif info.start > view.rows.first.offset:
        begin_at(store, segment, view, info.start)


def begin_at(store: Store, segment: str, view: View, start: int) -> None:
    """Let *view* begin at *start*, where its segment was truncated, within what it has."""
    following = view.rows.at_offset(start) or view.end
    if start == view.end.offset:
        following = view.end
    first = following
    if following.offset > start:
        below = view.rows.before_offset(start)
        at, before = Position(start, 0, below.timestamp), None
        try:
            while at != before:
                before = at
                at = walk_stored(store, segment, at, following.offset)
        except NotEventsError:
            pass
        if at.offset == following.offset:
            first = Position(start, following.seq_num - at.seq_num, below.timestamp)
        else:
            # cut within a record: what is left of it is no record
            _log.warning("truncated within a record", segment=segment, offset=start)
    view.rows.begin_at(first)


async def renumber(store: Store, segment: str, view: View, anchor: Position, events: int) -> None:
    """Let *view* begin where its segment does, behind *anchor*, up to which it was counted.

    The store had counted *events* then, -1 if it is not known.
    """
    info = store.info(segment)
    if info is None:
        raise NoSuchSegmentError(segment)
    at, before = Position(info.start, 0, anchor.timestamp), None
    while at != before:
        before = at
        at = walk_stored(store, segment, at, info.length)
        await asyncio.sleep(0)
    seq_num = anchor.seq_num + info.events - events - at.seq_num
    highest = anchor.seq_num + (info.start - anchor.offset) // EVENT_HEAD
    if events != anchor.seq_num or not anchor.seq_num <= seq_num <= highest:
        seq_num = highest
    _log.info("records numbered anew after a truncation", segment=segment, first=seq_num)
    view.end = Position(info.start, seq_num, anchor.timestamp)
    view.rows = Positions((view.end,))
