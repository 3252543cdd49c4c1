"""Reads the dead letters of a stream, which are in a stream of their own, `<stream>-dead` (R7)."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from logdrive.model.batch import BatchHeader
from logdrive.model.pieces import ByteRange
from logdrive.services.pravega.reader.segment import SegmentReader
from logdrive.services.pravega.reader.stream import ReadableSegment, events_of

_WITHOUT_NOTE: Final = "a record of "
"""Start of the reasons that earlier receivers gave, which left no note."""


@dataclass(slots=True)
class DeadLetter:
    """An event that was too long for its stream."""

    id: str
    reason: str
    """Why the receiver did not put it into the stream."""
    size: int
    """Bytes of the event."""
    pieces: int
    """How many pieces it was cut into."""
    header: BatchHeader
    """The header of the batch with its first piece."""
    segment: ReadableSegment
    """The segment that has all of its pieces."""
    extents: list[ByteRange] = field(default_factory=list)
    """Offsets of the batches with its pieces that were found, in order."""

    @property
    def whole(self) -> bool:
        """True if no piece is missing; else it was not acknowledged and was sent again."""
        return len(self.extents) == self.pieces

    @property
    def has_note(self) -> bool:
        """True if its receiver left a note in the stream; earlier versions did not (rule R7)."""
        return not self.reason.startswith(_WITHOUT_NOTE)

    async def read_payload(self) -> bytes:
        """Read the event from its pieces. Raises ValueError if one is missing."""
        parts: list[bytes] = []
        for start, end in self.extents:
            reader = SegmentReader(self.segment.client, self.segment.state.segment)
            async for _, records in reader.read_batches(start, end):
                parts += [_bytes_of(record, self.id) for record in events_of(records)]
        payload = b"".join(parts)
        if not self.whole or len(payload) != self.size:
            raise ValueError(f"the dead letter {self.id} is not whole")
        return payload


async def read_dead_letters(segments: Sequence[ReadableSegment]) -> list[DeadLetter]:
    """Return the dead letters in *segments*, in order, without their bytes."""
    letters: dict[str, DeadLetter] = {}
    for segment in segments:
        reader = SegmentReader(segment.client, segment.state.segment)
        async for batch, records in reader.read_batches(segment.state.start, segment.state.length):
            for record in events_of(records) if batch.header is not None else ():
                _add(letters, segment, batch.header, (batch.offset, batch.next), record)
    return list(letters.values())


def _add(
    letters: dict[str, DeadLetter],
    segment: ReadableSegment,
    header: BatchHeader | None,
    place: ByteRange,
    record: bytes,
) -> None:
    about = _about(record)
    if about is None or header is None:
        return
    letter = letters.get(about["id"])
    if letter is None:
        reason, size, pieces = about["reason"], about["bytes"], about["pieces"]
        letter = letters[about["id"]] = DeadLetter(
            about["id"], reason, size, pieces, header, segment
        )
    # in order: a piece that comes again, or behind a missing one, is left out
    if about["piece"] == len(letter.extents) + 1:
        letter.extents.append(place)


def _about(record: bytes) -> dict[str, Any] | None:
    """Return the `dead_letter` object of *record*, None if it is not a piece of a dead letter."""
    try:
        about = orjson.loads(record)["dead_letter"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    kinds = {"id": str, "reason": str, "bytes": int, "piece": int, "pieces": int}
    sound = isinstance(about, dict) and all(
        type(about.get(name)) is kind for name, kind in kinds.items()
    )
    return about if sound else None


def _bytes_of(record: bytes, letter: str) -> bytes:
    about = _about(record)
    if about is None or about["id"] != letter:
        return b""
    return b64decode(orjson.loads(record)["original_base64"])
