"""Appends of a face to a numbered segment, from the store's hands until they have numbers."""

import asyncio
from dataclasses import dataclass, field

from logdrive.errors import LogdriveError
from logdrive.model.framing import Part
from logdrive.services.numbering.positions import Position
from logdrive.wire.s2.records import Fence, Trim


@dataclass(slots=True, eq=False)
class EncodedAppend:
    """The events of an append, as they are stored.

    *first* is the first record's timestamp, *latest* the last one's (ms since 1970), both without
    regard to records before them that were not known. *commands* come with their index among the
    records.
    """

    events: Part
    count: int
    first: int
    latest: int
    commands: list[tuple[int, Fence | Trim]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class OwnAppend:
    """An append that was handed to the store, to be written at *start* of the segment.

    Once it is durable, and everything before it is numbered, *first* is the position of its first
    record, with that record's timestamp, and *end* the position behind it. Else *error* says why
    it failed, or is not known to be stored.
    """

    append: EncodedAppend
    start: int
    stored: "asyncio.Future[int]"
    first: Position | None = None
    end: Position | None = None
    error: LogdriveError | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it has numbers, or an error."""
        return self.first is not None or self.error is not None


def behind(position: Position, append: EncodedAppend) -> Position:
    """Return the position behind *append* if it is stored at *position*."""
    return Position(
        position.offset + len(append.events),
        position.seq_num + append.count,
        max(position.timestamp, append.latest),
    )
