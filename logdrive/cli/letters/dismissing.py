"""Dismisses dead letters: a note in their stream says by whom, when and why (rule R7).

The writer of `letter_states` appends the note, so that it is there once. The letter itself stays
where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from logdrive.cli.letters.letter_states import DISMISSED, choose_segment, state_of, writer_of
from logdrive.model import dead_letters as notes
from logdrive.model.dead_letters import Decision, Letter, encode_note
from logdrive.services.pravega.reader.dead_letters import DeadLetter
from logdrive.services.pravega.reader.stream import ReadableSegment

DismissalOutcome = Literal[
    "dismissed", "already dismissed", "already replayed", "would be dismissed"
]

_NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The contents of a note that dismisses a letter.

    Of a letter whose bytes are gone only the id is known; *size* is 0 then.
    """

    id: str
    size: int = 0
    source: UUID = _NO_ID
    store: str = str(_NO_ID)

    @classmethod
    def of(cls, letter: DeadLetter) -> "Dismissed":
        """Return the contents of a note for *letter*."""
        return cls(letter.id, letter.size, UUID(letter.header.source), letter.header.store)


async def dismiss(
    letter: Dismissed,
    segments: Sequence[ReadableSegment],
    decision: Decision,
    *,
    now_ms: int,
    dry_run: bool,
) -> DismissalOutcome:
    """Append a note that dismisses *letter* to one of its stream's *segments*.

    A letter that was replayed stays replayed. Raises `TransientError`, `StorageError`, and
    ValueError if all segments are sealed.
    """
    state = await state_of(letter.id, segments)
    if state != "waiting":
        return "already replayed" if state == "replayed" else "already dismissed"
    if dry_run:
        return "would be dismissed"

    segment = choose_segment(letter.id, segments)
    writer = await segment.client.set_up_writer(segment.state.segment, writer_of(letter.id))
    mark = Letter(notes.DISMISSED, letter.size, letter.id)
    data = encode_note(mark, letter.source, letter.store, now_ms, decision=decision)
    await writer.append_data([data], events=1, number=DISMISSED)
    return "dismissed"
