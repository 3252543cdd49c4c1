"""Cuts the text of messages where their blocks say that they end, whatever bytes they have."""

from typing import Any

from agent.events.event import Event
from agent.inputs.spool.blocks import SpooledMessage
from agent.inputs.spool.segment import SpoolSegment
from logdrive.model.records import TRUNCATED
from logdrive.records.chunk import TextChunk


class SpoolCutter:
    """The boundaries of messages, read from the spool again whenever they are asked for."""

    def __init__(self, segment: SpoolSegment) -> None:
        self._segment = segment

    def end_of_events(
        self,
        data: bytes,
        begin: int,
        *,
        whole: bool,
        final: bool,
        settled: bool = False,
        position: int = 0,
        in_line: bool = False,
    ) -> tuple[int, bool]:
        """Return the end of the last whole message in *data*, which is at *position* from *begin*
        on; see `EventCutter`.
        """
        end = position
        for message in self._segment.messages(position, position + len(data) - begin):
            end = message.end
        return begin + end - position, False

    def has_line_end(self, data: bytes, position: int) -> bool:
        """Return True: messages are read whole."""
        return True

    def cut_events(self, chunk: TextChunk, most: int) -> list[Event]:
        """Return the first *most* messages of *chunk*, each with the sender's address."""
        events = list[Event]()
        end = chunk.start + chunk.end - chunk.begin
        for message in self._segment.messages(chunk.start, end):
            events.append(_event_of(message, chunk))
            if len(events) == most:
                break
        return events


def _event_of(message: SpooledMessage, chunk: TextChunk) -> Event:
    at = chunk.begin - chunk.start
    # the newline behind it is the spool's own
    text = chunk.data[message.start + at : message.end + at - 1]
    flags = (TRUNCATED,) if message.cut else ()
    try:
        event = Event(message.start, message.end, text.decode(), flags=flags)
    except UnicodeDecodeError:
        decoded = text.decode(errors="replace")
        event = Event(message.start, message.end, decoded, original=text, flags=flags)
    if message.sender:
        log: dict[str, Any] = {"source": {"address": message.sender}}
        event.fields = {"log": log}
    return event
