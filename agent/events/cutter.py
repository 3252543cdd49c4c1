"""Says where events begin and end in the bytes of a source, and makes them.

`LINES` is the cutter of plain text; `agent.events.cutting` has those of other inputs.
"""

from typing import Final, Protocol

from agent.events.event import Event
from logdrive.model.records import PARTIAL
from logdrive.records.chunk import TextChunk


class EventCutter(Protocol):
    """Where events begin and end in the bytes of one source.

    Sources share it: what it says depends on its arguments alone.
    """

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
        """Return the end of the last complete event in *data* from *begin* on, and whether it cuts
        an event.

        *data[begin:]* begins with the first byte of an event, which is at *position* in the source;
        with *in_line* it goes on with an event that was cut before.
        With *whole* the source may have more bytes than *data*; with *settled* a last event of
        whole lines goes on no more, with *final* a last event needs no end at all. Without any
        complete event the end is *begin*, unless *whole* is set: then an event is longer than what
        is read at once, and is cut where its bytes allow it.
        """
        ...

    def has_line_end(self, data: bytes, position: int) -> bool:
        """Return whether a line ends in *data*, which is at *position* in the source."""
        ...

    def cut_events(self, chunk: TextChunk, most: int) -> list[Event]:
        """Return the first events of *chunk*, about *most* of them, in order and without fields.

        *chunk* ends where `end_of_events` said. The events lie next to each other, from its start
        on, and none overlaps another: each becomes a row, and rows tile the file.
        """
        ...


class LineCutter:
    """Events are lines that end with LF."""

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
        """Return the end of the last line; see `EventCutter`."""
        if final and not whole:
            return len(data), False

        lines = data.rfind(b"\n", begin) + 1
        if lines or not whole:
            return lines or begin, False

        # a line longer than the read: cut it between two characters
        return len(data) - cut_character_bytes(data), True

    def has_line_end(self, data: bytes, position: int) -> bool:
        """Return whether *data* has an LF."""
        return b"\n" in data

    def cut_events(self, chunk: TextChunk, most: int) -> list[Event]:
        """Return the first *most* lines, about 0.4 µs each; see `EventCutter`."""
        events: list[Event] = []
        at = chunk.start
        # what is behind the last newline, or behind *most* lines
        *lines, rest = chunk.data[chunk.begin : chunk.end].split(b"\n", most)
        for line in lines:
            events.append(event_of_line(at, line, "\n"))
            at += len(line) + 1
        if rest and len(lines) < most:
            events.append(event_of_line(at, rest, "", (PARTIAL,) if chunk.open_end else ()))
        return events


LINES: Final = LineCutter()
"""The cutter of plain text."""


def event_of_line(start: int, line: bytes, eol: str, flags: tuple[str, ...] = ()) -> Event:
    """Return the event of a *line* at *start* that ends with *eol*, "" or LF.

    A carriage return before LF belongs to the line end.
    """
    end = start + len(line) + len(eol)
    if eol and line.endswith(b"\r"):
        line, eol = line[:-1], "\r\n"
    try:
        return Event(start, end, line.decode(), eol, flags=flags)
    except UnicodeDecodeError:
        return Event(start, end, line.decode(errors="replace"), eol, line, flags=flags)


def cut_character_bytes(text: bytes) -> int:
    """Return the number of bytes at the end of *text* that begin an incomplete UTF-8 character.

    *text* has at least four bytes.
    """
    for back in range(1, 4):
        byte = text[-back]
        # ASCII, so that no character is cut
        if byte < 0x80:
            return 0
        # a lead byte: it says how long its character is
        if byte >= 0xC0:
            return back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
    return 0
