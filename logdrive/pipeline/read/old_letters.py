"""Adds the missing notes for dead letters of earlier versions (rule R7).

Earlier receivers put every event over 768 KiB into the dead letters without a note in the stream,
so that no audit knew of them. A run of the pipeline looks for such letters once and appends the
notes, which it then reads like any others.
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
"""Namespace of the writer ids of notes; changing it notes each letter once more."""

_NOTED: Final = 1
"""Number that the stream keeps for a note's writer once the note is durable."""


def note_old_letters(stream: StreamClient) -> None:
    """Append a note to *stream* for each of its dead letters that has none.

    A failure is logged, not raised, and the next run tries again: no row depends on it.
    """
    log = structlog.get_logger("logdrive.pipeline")
    beside = replace(stream, stream=stream.stream + DEAD_STREAM, location=StreamLocation())
    try:
        count = sum(
            asyncio.run(_note_all(stream, beside, state)) for state in beside.list_segments()
        )
    except (LogdriveError, ValueError) as error:
        log.info(
            "can't look for dead letters of earlier versions",
            stream=beside.name,
            reason=str(error),
        )
        return
    if count:
        log.warning(
            "found dead letters of an earlier version: see `logdrive store dead-letters`",
            count=count,
        )


async def _note_all(stream: StreamClient, beside: StreamClient, there: SegmentState) -> int:
    """Append notes for the letters in the segment *there* since the last look; return how many."""
    home = await beside.locate_store(there.segment)
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
        await _append(stream, old)
    await _remember(beside, there, letters)
    return len(old)


async def _append(stream: StreamClient, letters: Sequence[DeadLetter]) -> None:
    there = [state for state in await asyncio.to_thread(stream.list_segments) if not state.sealed]
    if not there:
        raise ValueError("the stream is sealed: nothing can be appended")
    home = await stream.locate_store(there[0].segment, update=True)
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
    """Store where the next look begins.

    That is the end of *there*, or the first letter that may still get its last pieces.
    """
    begun = [letter.places[0][0] for letter in letters if letter.places and not letter.whole]
    home = await beside.locate_store(there.segment, update=True)
    async with connected(
        SystemTransport(), home.host, home.port, home.tls, token=home.token_of
    ) as client:
        await advance_position(client, there.segment, _READER, min(begun, default=there.length))
