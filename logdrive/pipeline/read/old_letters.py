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
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.reader.dead_letters import DeadLetter, read_dead_letters
from logdrive.services.pravega.reader.position import advance_reader_position, reader_position
from logdrive.services.pravega.reader.stream import ReadableSegment
from logdrive.services.reader import SegmentState, ServiceReader

_READER: Final = "notes"
"""Name of the position in a segment of dead letters up to which all have a note."""

_NAMESPACE: Final = UUID("0c6a4f7e-3b1d-5a52-9c55-0e7d2a6f8b14")
"""Namespace of the writer ids of notes; changing it notes each letter once more."""

_NOTED: Final = 1
"""Number that the stream keeps for a note's writer once the note is durable."""


def note_old_letters(stream: ServiceReader) -> None:
    """Append a note to *stream* for each of its dead letters that has none.

    A failure is logged, not raised, and the next run tries again: no row depends on it.
    """
    if not isinstance(stream, StreamClient):
        return  # earlier versions wrote to Pravega and to the store only
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


async def _note_all(stream: StreamClient, beside: StreamClient, dead_segment: SegmentState) -> int:
    """Append notes for the letters in *dead_segment* since the last look; return how many."""
    home = await beside.locate_store(dead_segment.segment)
    async with connect_segment_store(
        SystemTransport(), home.host, home.port, home.tls, token=home.token_of
    ) as client:
        seen = await reader_position(client, dead_segment.segment, _READER) or 0
        if seen >= dead_segment.length:  # nothing came since the last look
            return 0
        state = replace(dead_segment, start=max(seen, dead_segment.start))
        letters = await read_dead_letters([ReadableSegment(client, state)])

    # a letter whose last pieces are not there yet is looked at again next time
    old = [letter for letter in letters if letter.whole and not letter.has_note]
    if old:
        await _append(stream, old)
    await _remember(beside, dead_segment, letters)
    return len(old)


async def _append(stream: StreamClient, letters: Sequence[DeadLetter]) -> None:
    segments = await asyncio.to_thread(stream.list_segments)
    open_segments = [state for state in segments if not state.sealed]
    if not open_segments:
        raise ValueError("the stream is sealed: nothing can be appended")

    # any open segment will do: a note names the letter's source itself
    segment = open_segments[0].segment
    home = await stream.locate_store(segment, update=True)
    async with connect_segment_store(
        SystemTransport(), home.host, home.port, home.tls, token=home.token_of
    ) as client:
        for letter in letters:
            # a writer per letter: a run that failed before `_remember` does not note it twice
            writer = await client.set_up_writer(segment, uuid5(_NAMESPACE, letter.id))
            if writer.durable < _NOTED:
                header, mark = letter.header, Letter(DEAD_LETTER, letter.size, letter.id)
                data = encode_note(
                    mark, UUID(header.source), header.store, header.received, peer=header.peer
                )
                await writer.append_data([data], events=1, number=_NOTED)


async def _remember(
    beside: StreamClient, dead_segment: SegmentState, letters: Sequence[DeadLetter]
) -> None:
    """Store where the next look begins.

    That is the end of *dead_segment*, or the first letter that may still get its last pieces.
    """
    begun = [letter.extents[0][0] for letter in letters if letter.extents and not letter.whole]
    home = await beside.locate_store(dead_segment.segment, update=True)
    async with connect_segment_store(
        SystemTransport(), home.host, home.port, home.tls, token=home.token_of
    ) as client:
        await advance_reader_position(
            client, dead_segment.segment, _READER, min(begun, default=dead_segment.length)
        )
