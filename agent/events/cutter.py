"""Says where events end in the bytes of a source: at line ends."""

from typing import Final, Protocol


class EventCutter(Protocol):
    """Where events begin and end in the bytes of one source. It keeps no state between calls."""

    def end_of_events(
        self, data: bytes, begin: int, *, whole: bool, final: bool
    ) -> tuple[int, bool]:
        """Return the end of the last complete event in *data* from *begin* on, and whether it cuts
        an event.

        *data[begin:]* begins with the first byte of an event. With *whole* the source may have more
        bytes than *data*, with *final* a last event needs no end. Without any complete event the
        end is *begin*, unless *whole* is set: then an event is longer than what is read at once,
        and is cut where its bytes allow it.
        """
        ...


class LineCutter:
    """Events are lines that end with LF."""

    def end_of_events(
        self, data: bytes, begin: int, *, whole: bool, final: bool
    ) -> tuple[int, bool]:
        """Return the end of the last line; see `EventCutter`."""
        if final and not whole:
            return len(data), False

        lines = data.rfind(b"\n", begin) + 1
        if lines or not whole:
            return lines or begin, False

        # a line longer than the read: cut it between two characters
        return len(data) - _cut_character_bytes(data), True


LINES: Final = LineCutter()
"""The cutter of plain text."""


def _cut_character_bytes(text: bytes) -> int:
    """Return the number of bytes at the end of *text* that begin an incomplete UTF-8 character."""
    for back in range(1, 4):
        byte = text[-back]
        # ASCII, so that no character is cut
        if byte < 0x80:
            return 0
        # a lead byte: it says how long its character is
        if byte >= 0xC0:
            return back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
    return 0
