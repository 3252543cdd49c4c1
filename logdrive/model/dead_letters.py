"""Notes about dead letters: the batches in a stream that name events which are not in it (rule R7).

A note is a foreign batch without records. Its mark names the letter and what became of it; the
event itself is in the stream beside it, whose name ends with `DEAD_STREAM`.
"""

from typing import Final
from uuid import UUID

import msgspec

from logdrive.model.batch import BatchHeader
from logdrive.model.framing import frame_event

DEAD_LETTER: Final = "dead_letter"
"""`reason` in the mark of a note: the event is among the dead letters."""

DISMISSED: Final = "dead_letter_dismissed"
"""`reason` in the mark of a note: somebody decided that the letter is not wanted in a row."""

DEAD_STREAM: Final = "-dead"
"""Suffix of the stream that has a stream's dead letters."""

_NONE: Final = msgspec.Raw(b"{}")

WHY_CHARACTERS: Final = 1_000
BY_CHARACTERS: Final = 200


class Letter(msgspec.Struct, frozen=True):
    """Mark of a note: *end* is the event's size in bytes, 0 where that is not known."""

    reason: str
    end: int
    letter: str

    def encode(self) -> msgspec.Raw:
        """Return the mark as it stands in a header."""
        return msgspec.Raw(msgspec.json.encode(self))


class Decision(msgspec.Struct, frozen=True):
    """Attributes of the note of a dismissal: who dismissed a letter, and why."""

    by: str
    why: str


_letter = msgspec.json.Decoder(Letter).decode
_decision = msgspec.json.Decoder(Decision).decode


def note(
    letter: Letter,
    source: UUID,
    store: str,
    received: int,
    *,
    peer: msgspec.Raw = _NONE,
    decision: Decision | None = None,
) -> bytes:
    """Return the batch that is the note *letter* about an event of *source*.

    *received* is ms since 1970: when the event came, or when it was dismissed.
    """
    header = BatchHeader(
        kind="foreign",
        source=str(source),
        records=0,
        events=0,
        size=0,
        read=received,
        received=received,
        store=store,
        peer=peer,
        attributes=msgspec.Raw(msgspec.json.encode(decision) if decision else b"{}"),
        mark=letter.encode(),
    )
    return frame_event(header.encode())


def check_note(header: BatchHeader) -> None:
    """Raise ValueError where the mark of *header*, which is no piece's, is not that of a note."""
    try:
        letter = _letter(header.mark)
    except msgspec.DecodeError as error:
        raise ValueError(f"a mark that can't be read: {error}") from error
    if letter.reason not in (DEAD_LETTER, DISMISSED) or header.size:
        raise ValueError("a mark of an unknown kind")


def decision_of(attributes: str | None) -> Decision:
    """Return what the attributes of a dismissal's note say; empty texts where they say nothing."""
    try:
        return _decision(attributes or "")
    except msgspec.DecodeError:
        return Decision("", "")
