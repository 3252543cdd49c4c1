"""The state of a dead letter: the stream keeps it as the last number of a writer for each letter.

The writer's id is derived from the letter's. A replay counts pieces with the number, and sets it to
`REPLAYED` with the last one; a dismissal sets it to `DISMISSED`. So each is done at most once, and
is as durable as any other number.
"""

from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID, uuid5

from logdrive.services.pravega.reader.stream import ReadableSegment

LetterState = Literal["waiting", "replayed", "dismissed"]

REPLAYED: Final = 1 << 32
DISMISSED: Final = REPLAYED + 1

_NAMESPACE: Final = UUID("5f1d9b0e-8f43-5c0e-9d6a-6b7a3f0c2e91")
"""Namespace of the writers' ids; changing it makes all letters waiting ones again."""


def writer_of(letter: str) -> UUID:
    """Return the id of the writer that replays or dismisses the letter with the id *letter*."""
    return uuid5(_NAMESPACE, letter)


async def state_of(letter: str, segments: Sequence[ReadableSegment]) -> LetterState:
    """Return the state of the letter with the id *letter*; *segments* are its stream's.

    Needs permission to read only. Raises `TransientError`.
    """
    writer = writer_of(letter)
    # the segment that was chosen may be sealed by now, and another one be chosen: ask all
    numbers = [await one.client.get_attribute(one.state.segment, writer) for one in segments]
    if DISMISSED in numbers:
        return "dismissed"
    return "replayed" if REPLAYED in numbers else "waiting"


def choose_segment(letter: str, segments: Sequence[ReadableSegment]) -> ReadableSegment:
    """Return the segment for appends for *letter*. Raises ValueError if all are sealed."""
    open_ones = [one for one in segments if not one.state.sealed]
    if not open_ones:
        raise ValueError("the stream is sealed: nothing can be appended")
    return open_ones[UUID(letter).int % len(open_ones)]
