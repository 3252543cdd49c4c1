"""Replays dead letters: appends each to its stream, exactly once however often it is called.

A letter is appended as an event in pieces (rule R6) by the writer of `letter_states`. An
interrupted attempt is started again from the first piece; its own pieces are an event that never
becomes whole.
"""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from logdrive.cli.letters.letter_states import REPLAYED, choose_segment, state_of, writer_of
from logdrive.model.limits import EVENT_BYTES
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.reader.dead_letters import DeadLetter
from logdrive.services.pravega.reader.stream import ReadableSegment
from receiver.batch import ForeignBatches

ReplayOutcome = Literal[
    "replayed", "already replayed", "dismissed", "would be replayed", "too long", "not whole"
]


async def replay(
    letter: DeadLetter, segments: Sequence[ReadableSegment], *, dry_run: bool
) -> ReplayOutcome:
    """Append *letter* to one of its stream's *segments*, unless it was replayed or dismissed.

    Raises `TransientError`, `StorageError`, and ValueError if all segments are sealed.
    """
    state = await state_of(letter.id, segments)
    if state != "waiting":
        return "already replayed" if state == "replayed" else "dismissed"
    if not letter.whole:
        return "not whole"
    if letter.size > EVENT_BYTES:
        return "too long"
    if dry_run:
        return "would be replayed"
    await _append(letter, await letter.read_payload(), choose_segment(letter.id, segments))
    return "replayed"


async def _append(letter: DeadLetter, payload: bytes, segment: ReadableSegment) -> None:
    header = letter.header
    batches = ForeignBatches(UUID(header.source), header.peer, header.store)
    writer = await segment.client.set_up_writer(segment.state.segment, writer_of(letter.id))

    # an interrupted attempt has left a number: go on above it, with all pieces again
    number = 0 if writer.durable == ABSENT else writer.durable
    pieces = list(batches.piece_batches(payload, UUID(letter.id), header.received))
    for left, batch in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        number = number + 1 if left else REPLAYED
        await writer.append_data(batch, events=2, number=number)
