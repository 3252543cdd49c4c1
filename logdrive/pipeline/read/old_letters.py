"""Notes for dead letters of earlier versions, which left none in their stream (rule R7).

Receivers up to this version put every event over 768 KiB among the dead letters and said nothing of
it in the stream, so no audit could know. A run of the pipeline looks for such letters once and
appends the notes, which it then reads like any others.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID, uuid5

import structlog

from logdrive.errors import LogdriveError
from logdrive.model.dead_letters import DEAD_LETTER, DEAD_STREAM, Letter, encode_note
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.read.stream import StreamClient, StreamLocation
from logdrive.services.pravega.client.client import SegmentState, connected
from logdrive.services.pravega.reader.dead_letters import DeadLetter, dead_letters
from logdrive.services.pravega.reader.position import advance_position, position
from logdrive.services.pravega.reader.stream import ReadableSegment

_READER: Final = "notes"
"""Name of the position in a segment of dead letters up to which all have a note."""

_NAMESPACE: Final = UUID("0c6a4f7e-3b1d-5a52-9c55-0e7d2a6f8b14")
"""Of the writers of notes; changing it notes each letter once more."""

_NOTED: Final = 1


def note_old_letters(face: StreamClient) -> None:
    """Append a note to the stream at *face* for each letter beside it that has none.

    Where that fails, it is logged, and the next run tries again: no row depends on it.
    """
    log = structlog.get_logger("logdrive.pipeline")
    beside = replace(face, stream=face.stream + DEAD_STREAM, found=StreamLocation())
    try:
        count = sum(asyncio.run(_note_all(face, beside, state)) for state in beside.segments())
    except (LogdriveError, ValueError) as error:
        log.info(
            "dead letters of earlier versions can't be looked for",
            stream=beside.name,
            reason=str(error),
        )
        return
    if count:
        log.warning(
            "dead letters of an earlier version: see `logdrive store dead-letters`", count=count
        )


async def _note_all(face: StreamClient, beside: StreamClient, there: SegmentState) -> int:
    """Note the letters in *there* since the last look; return how many."""
    home = await beside.home(there.segment)
    async with connected(
        SystemTransport(), home.host, home.port, home.tls, token=home.token_of
    ) as client:
        seen = await position(client, there.segment, _READER) or 0
        if seen >= there.length:
            return 0
        state = replace(there, start=max(seen, there.start))
        letters = await dead_letters([ReadableSegment(client, state)])
    old = [letter for letter in letters if letter.whole and not letter.has_note]
    if old:
        await _append(face, old)
    await _remember(beside, there, letters)
    return len(old)


async def _append(face: StreamClient, letters: Sequence[DeadLetter]) -> None:
    there = [state for state in await asyncio.to_thread(face.segments) if not state.sealed]
    if not there:
        raise ValueError("the stream is sealed: nothing can be appended")
    home = await face.home(there[0].segment, update=True)
    async with connected(
        SystemTransport(), home.host, home.port, home.tls, token=home.token_of
    ) as client:
        for letter in letters:
            place = await client.set_up(there[0].segment, uuid5(_NAMESPACE, letter.id))
            if place.durable < _NOTED:
                header, mark = letter.header, Letter(DEAD_LETTER, letter.size, letter.id)
                data = encode_note(
                    mark, UUID(header.source), header.store, header.received, peer=header.peer
                )
                await place.append([data], events=1, number=_NOTED)


async def _remember(
    beside: StreamClient, there: SegmentState, letters: Sequence[DeadLetter]
) -> None:
    """Begin behind *there* next time, or at the first letter that may still get its last pieces."""
    begun = [letter.places[0][0] for letter in letters if letter.places and not letter.whole]
    home = await beside.home(there.segment, update=True)
    async with connected(
        SystemTransport(), home.host, home.port, home.tls, token=home.token_of
    ) as client:
        await advance_position(client, there.segment, _READER, min(begun, default=there.length))
