"""Reserved segments: the store's own, which clients may only read."""

from logdrive.store.streams.names import OWN
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.own import LocateAppends
from logdrive.wire.pravega.segments import (
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    LocateOffset,
    MergeSegmentsBatch,
    ReadSegment,
)

_READING = GetSegmentAttribute | GetStreamSegmentInfo | LocateAppends | LocateOffset | ReadSegment


def reserved_segment_changed_by(message: Message) -> str | None:
    """Return the reserved segment that *message* would change; None if it changes none."""
    if isinstance(message, _READING):
        return None
    return next((name for name in segments_named_by(message) if name.startswith(OWN)), None)


def segments_named_by(message: Message) -> list[str]:
    """Return the full names of the segments in *message*."""
    names: list[str] = [
        getattr(message, field)
        for field in ("segment", "target", "source", "parent")
        if hasattr(message, field)
    ]
    if isinstance(message, MergeSegmentsBatch):
        names += message.sources
    return names
