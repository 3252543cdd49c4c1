"""Notes about dead letters: batches in a stream that name events which are not in it (rule R7).

A note is a foreign batch without records. Its mark names the letter and what became of it. The
event itself is in another stream, whose name is the stream's with the suffix `DEAD_STREAM`.
"""

from typing import Final
from uuid import UUID

import msgspec

from logdrive.model.batch import BatchHeader
from logdrive.model.framing import frame_event

DEAD_LETTER: Final = "dead_letter"
"""`reason` in the mark of a note: the event is among the dead letters."""

DISMISSED: Final = "dead_letter_dismissed"
"""`reason` in the mark of a note: an operator decided that the letter should not become a row."""

DEAD_STREAM: Final = "-dead"
"""Suffix of the name of the stream that keeps a stream's dead letters."""

_NONE: Final = msgspec.Raw(b"{}")

WHY_CHARACTERS: Final = 1_000
"""Limit on the characters of a dismissal's reason."""

BY_CHARACTERS: Final = 200
"""Limit on the characters of the name of who dismissed a letter."""


class Letter(msgspec.Struct, frozen=True):
    """Mark of a note."""

    reason: str  # `DEAD_LETTER` or `DISMISSED`
    end: int  # size of the event in bytes, 0 if unknown
    letter: str  # id of the dead letter

    def encode(self) -> msgspec.Raw:
        """Return the mark as JSON for a header."""
        return msgspec.Raw(msgspec.json.encode(self))


class Decision(msgspec.Struct, frozen=True):
    """Attributes of the note of a dismissal: who dismissed a letter, and why."""

    by: str  # name of the operator, at most `BY_CHARACTERS`
    why: str  # the reason, at most `WHY_CHARACTERS`


_letter = msgspec.json.Decoder(Letter).decode
_decision = msgspec.json.Decoder(Decision).decode


def encode_note(
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
    """Raise ValueError unless the mark of *header*, which is not a piece, is that of a note."""
    try:
        letter = _letter(header.mark)
    except msgspec.DecodeError as error:
        raise ValueError(f"a mark that can't be read: {error}") from error
    if letter.reason not in (DEAD_LETTER, DISMISSED) or header.size:
        raise ValueError("a mark of an unknown kind")


def parse_decision(attributes: str | None) -> Decision:
    """Return the decision in the attributes of a dismissal's note; empty texts if it has none."""
    try:
        return _decision(attributes or "")
    except msgspec.DecodeError:
        return Decision("", "")
