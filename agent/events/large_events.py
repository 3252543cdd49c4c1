"""Divides events whose records would be too long, or would be none (rule R3): no byte is lost.

Their fields are left out. What then is still too long comes in parts, as a long line does.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from agent.events.cutter import event_of_line
from agent.events.event import Event
from logdrive.model.records import PARTIAL, REDACTED
from logdrive.records.blocks import LINE_PART_BYTES, character_start

LEFT_OUT: Final[dict[str, Any]] = {
    "error": {"message": "the fields were left out: they don't fit a record", "type": "limit"}
}
"""What an event has instead of its fields."""

_ENCODED_BYTES: Final = LINE_PART_BYTES // 4
"""The same for other encodings; divisible by four, so that UTF-16 and UTF-32 stay whole."""


def divide_event(event: Event) -> Iterator[Event]:
    """Yield *event* in parts that fit a record each, the last one without `PARTIAL`.

    What of its bytes can be told is told exactly; a redacted one keeps its message.
    """
    if REDACTED in event.flags:
        yield from _divide_message(event)
        return
    original = event.original
    if original is None:
        original = event.message.encode(event.encoding or "utf-8")
    size = event.end - event.left_out - event.start
    if event.parts or len(original) + len(event.eol.encode()) != size:
        # its text is not the file's, whoever changed it
        yield from _divide_message(event)
        return
    for number, (begin, end) in enumerate(pairwise(_cuts(event, original))):
        last = end == len(original)
        start = event.start + begin
        part = _part(event, original[begin:end], start, last=last)
        part.flags = _flags(event, last=last)
        part.fields = {} if number else dict(LEFT_OUT)
        yield part


def _part(event: Event, data: bytes, start: int, *, last: bool) -> Event:
    """Return the event of *data*, which is a part of *event* and begins at *start*."""
    eol = event.eol if last else ""
    if not event.encoding:
        part = event_of_line(start, data, "")
        part.eol = eol
    else:
        message = data.decode(event.encoding, errors="replace")
        same = message.encode(event.encoding, errors="replace") == data
        part = Event(start, 0, message, eol, None if same else data)
        part.encoding = event.encoding if same else ""
    part.end = event.end if last else start + len(data)
    part.left_out = event.left_out if last else 0
    part.tied = event.tied
    return part


def _flags(event: Event, *, last: bool) -> tuple[str, ...]:
    return event.flags if last or PARTIAL in event.flags else (PARTIAL, *event.flags)


def _cuts(event: Event, data: bytes) -> list[int]:
    """Return where *data* is cut: at its start, where characters begin, at its end."""
    cuts = [0]
    # other encodings than UTF-8 may need the text and the bytes, both escaped
    most = _ENCODED_BYTES if event.encoding else LINE_PART_BYTES
    while len(data) - cuts[-1] > most:
        cuts.append(character_start(data, cuts[-1] + most))
    return [*cuts, len(data)]


def _divide_message(event: Event) -> Iterator[Event]:
    """Yield *event*, whose message is not the file's bytes, in parts of the message.

    Each has at least one byte of the file; what of the message has none is left out.
    """
    size = LINE_PART_BYTES // 4  # characters, of up to four bytes each
    parts = [event.message[at : at + size] for at in range(0, len(event.message), size)] or [""]
    most = event.end - event.left_out - event.start
    for number, message in enumerate(parts[:most]):
        last = number == min(len(parts), most) - 1
        yield Event(
            event.start + number,
            event.end if last else event.start + number + 1,
            message,
            event.eol if last else "",
            left_out=event.left_out if last else 0,
            flags=_flags(event, last=last),
            fields={} if number else dict(LEFT_OUT),
        )
