"""The dead letters of a stream, read from the stream beside it (rule R7)."""

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
"""How the reason begins that receivers gave that left no note."""


@dataclass(slots=True)
class DeadLetter:
    """An event of *size* bytes that went to the dead letters, and why.

    *places* are where the batches with its pieces are in the segment *there*; *header* is that of
    the first one.
    """

    id: str
    reason: str
    size: int
    pieces: int
    header: BatchHeader
    there: ReadableSegment
    places: list[ByteRange] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether all pieces are there; else it was never acknowledged, and was sent again."""
        return len(self.places) == self.pieces

    @property
    def has_note(self) -> bool:
        """Whether its receiver left a note in the stream; earlier versions did not (rule R7)."""
        return not self.reason.startswith(_WITHOUT_NOTE)

    async def payload(self) -> bytes:
        """Return the event, read again. Raises ValueError where it is not whole."""
        parts: list[bytes] = []
        for start, end in self.places:
            reader = SegmentReader(self.there.client, self.there.state.segment)
            async for _, records in reader.batches(start, end):
                parts += [_bytes_of(record, self.id) for record in events_of(records)]
        payload = b"".join(parts)
        if not self.whole or len(payload) != self.size:
            raise ValueError(f"the dead letter {self.id} is not whole")
        return payload


async def dead_letters(segments: Sequence[ReadableSegment]) -> list[DeadLetter]:
    """Return the letters in *segments*, in order; one batch at a time is in memory."""
    found: dict[str, DeadLetter] = {}
    for there in segments:
        reader = SegmentReader(there.client, there.state.segment)
        async for hop, records in reader.batches(there.state.start, there.state.length):
            for record in events_of(records) if hop.header is not None else ():
                _add(found, there, hop.header, (hop.offset, hop.next), record)
    return list(found.values())


def _add(
    found: dict[str, DeadLetter],
    there: ReadableSegment,
    header: BatchHeader | None,
    place: ByteRange,
    record: bytes,
) -> None:
    about = _about(record)
    if about is None or header is None:
        return
    letter = found.get(about["id"])
    if letter is None:
        reason, size, pieces = about["reason"], about["bytes"], about["pieces"]
        letter = found[about["id"]] = DeadLetter(about["id"], reason, size, pieces, header, there)
    if about["piece"] == len(letter.places) + 1:
        letter.places.append(place)


def _about(record: bytes) -> dict[str, Any] | None:
    """Return what *record* says of itself as a piece of a letter; None where it is none."""
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
