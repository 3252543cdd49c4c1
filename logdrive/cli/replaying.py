"""Dead letters back into their stream, each once however often it is asked for.

A letter is appended as an event in pieces (rule R6) by a writer of its own, whose number the
stream keeps: it counts pieces, and is `_DONE` once the last one is durable. An attempt that was
cut short is begun anew, and what it left is an event without an end.
"""

from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID, uuid5

from logdrive.model.limits import EVENT_BYTES
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.reader.dead_letters import DeadLetter
from logdrive.services.pravega.reader.stream import ReadableSegment
from receiver.batch import ForeignBatches

ReplayOutcome = Literal[
    "replayed", "already replayed", "would be replayed", "too long", "not whole"
]

_DONE: Final = 1 << 32
_NAMESPACE: Final = UUID("5f1d9b0e-8f43-5c0e-9d6a-6b7a3f0c2e91")
"""Of the writers; changing it makes every letter one that was never replayed."""


async def replay(
    letter: DeadLetter, segments: Sequence[ReadableSegment], *, dry_run: bool
) -> ReplayOutcome:
    """Append *letter* to one of *segments*, the stream's, unless it is there already.

    Raises `TransientError`, `StorageError`, and ValueError where no segment takes anything.
    """
    if not letter.whole:
        return "not whole"
    if letter.size > EVENT_BYTES:
        return "too long"
    writer = uuid5(_NAMESPACE, letter.id)
    for one in segments:
        known = await one.client.set_up(one.state.segment, writer)
        if known.durable == _DONE:
            return "already replayed"
    if dry_run:
        return "would be replayed"
    await _append(letter, await letter.payload(), _taking(letter, segments), writer)
    return "replayed"


def _taking(letter: DeadLetter, segments: Sequence[ReadableSegment]) -> ReadableSegment:
    open_ones = [one for one in segments if not one.state.sealed]
    if not open_ones:
        raise ValueError("the stream is sealed: nothing can be appended")
    return open_ones[UUID(letter.id).int % len(open_ones)]


async def _append(letter: DeadLetter, payload: bytes, there: ReadableSegment, writer: UUID) -> None:
    header = letter.header
    batches = ForeignBatches(UUID(header.source), header.peer, header.store)
    place = await there.client.set_up(there.state.segment, writer)
    number = 0 if place.durable == ABSENT else place.durable
    pieces = list(batches.pieces(payload, UUID(letter.id), header.received))
    for left, batch in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        number = number + 1 if left else _DONE
        await place.append(batch, events=2, number=number)
