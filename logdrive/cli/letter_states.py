"""What became of a dead letter: the number of a writer of its own, which the stream keeps.

The writer's id is made from the letter's. A replay counts pieces with the number, and sets it to
`REPLAYED` with the last one; a dismissal sets it to `DISMISSED`. So either is done once, however
often it is asked for, and survives like any other number.
"""

from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID, uuid5

from logdrive.model.limits import EVENT_BYTES
from logdrive.services.pravega.reader.dead_letters import DeadLetter
from logdrive.services.pravega.reader.stream import ReadableSegment

LetterState = Literal["waiting", "replayed", "dismissed"]

REPLAYED: Final = 1 << 32
DISMISSED: Final = REPLAYED + 1

_NAMESPACE: Final = UUID("5f1d9b0e-8f43-5c0e-9d6a-6b7a3f0c2e91")
"""Of the writers; changing it makes every letter one that was never replayed or dismissed."""


def writer_of(letter: str) -> UUID:
    """Return the id of the writer that replays or dismisses the letter with the id *letter*."""
    return uuid5(_NAMESPACE, letter)


async def state_of(letter: str, segments: Sequence[ReadableSegment]) -> LetterState:
    """Return what became of the letter with the id *letter*; *segments* are its stream's.

    Reading is enough of a permission. Raises `TransientError`.
    """
    writer = writer_of(letter)
    numbers = [await one.client.attribute(one.state.segment, writer) for one in segments]
    if DISMISSED in numbers:
        return "dismissed"
    return "replayed" if REPLAYED in numbers else "waiting"


def accepting(letter: str, segments: Sequence[ReadableSegment]) -> ReadableSegment:
    """Return the segment that what is appended for *letter* goes to. Raises ValueError for none."""
    open_ones = [one for one in segments if not one.state.sealed]
    if not open_ones:
        raise ValueError("the stream is sealed: nothing can be appended")
    return open_ones[UUID(letter).int % len(open_ones)]


def can_be_replayed(letter: DeadLetter) -> bool:
    """Whether *letter* is whole and short enough for the stream (rule R6)."""
    return letter.whole and letter.size <= EVENT_BYTES
