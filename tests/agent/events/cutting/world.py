"""Reads a stream as an input does, with any cutter."""

from collections.abc import Sequence

from agent.config.files import InputTable
from agent.events.cutter import EventCutter
from agent.events.cutting.make import make_cutter
from agent.events.event import Event
from logdrive.records.chunk import TextChunk


def table(**keys: object) -> InputTable:
    """Return an input's table with these keys."""
    import msgspec

    return msgspec.convert({"paths": ["/logs/*"], **keys}, InputTable)


def cutter_for(stream: bytes, **keys: object) -> EventCutter:
    """Return the cutter of a stream that begins so, for a table with these keys."""
    return make_cutter(table(**keys), stream[:4])


def read_events(
    cutter: EventCutter, stream: bytes, sizes: Sequence[int], limit: int = 1 << 19
) -> list[Event]:
    """Return the events of *stream* that comes in pieces of these *sizes*, and then the rest.

    At most *limit* bytes are read at once. At its end the stream is over.
    """
    events, position, there, in_line = list[Event](), 0, 0, False
    for size in [*sizes, len(stream)]:
        there = min(len(stream), there + size)
        final = there == len(stream)
        while position < there:
            data = stream[max(0, position - 256) : min(there, position + limit)]
            begin = min(position, 256)
            whole = len(data) - begin == limit
            end, open_end = cutter.end_of_events(
                data, begin, whole=whole, final=final, position=position, in_line=in_line
            )
            if end == begin:
                break
            chunk = TextChunk(position, data, begin, end, open_end, in_line)
            events += cutter.cut_events(chunk, 1 << 30)
            position += end - begin
            in_line = open_end
    assert position == len(stream)
    return events


def bytes_of(event: Event) -> bytes:
    """Return what a table says of the bytes of *event* in its file (rule R2)."""
    exact = event.original
    if exact is None:
        exact = event.message.encode(event.encoding or "utf-8")
    return exact + event.eol.encode()


def assert_tiles(events: Sequence[Event], stream: bytes) -> None:
    """Check that each byte of *stream* is in exactly one event, or left out."""
    at = 0
    for event in events:
        assert event.start == at
        kept = event.end - event.left_out
        assert bytes_of(event) == stream[event.start : kept]
        at = event.end
    assert at == len(stream)
