"""Tells the messages apart that come over one connection. Sans I/O.

Syslog over TCP has two ways (RFC 6587), and a sender may change from one to the other: where a
message begins with a digit, that is its length, then a space, then so many bytes (octet counting);
else it ends with a newline. A number that no space follows, or that is longer than any length, is
the beginning of a line.
"""

from dataclasses import dataclass
from typing import Final, Protocol

_ZERO, _NINE = b"09"
_DIGITS: Final = 9
"""Limit on the digits of a length."""


@dataclass(slots=True)
class FramedText:
    """Messages one after the other, each with a newline behind it; or lines."""

    text: bytes = b""
    """All bytes, newlines included."""

    lengths: list[int] | None = None
    """The length of each message with its newline, negative where its rest was cut off; None for
    lines.
    """


class Framing(Protocol):
    """What one connection sends, in the order in which it comes."""

    def receive_data(self, data: bytes) -> FramedText:
        """Add *data*; return what it completes."""
        ...

    def receive_end(self) -> FramedText:
        """Return what the connection's end completes."""
        ...


class LineFraming:
    """Lines, of which other connections' lines must not interrupt any.

    A line over *limit* bytes becomes several; the last one gets a newline at the connection's end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()  # the beginning of a line
        self._was_cut = False  # whether what comes goes on with a line that was cut

    def receive_data(self, data: bytes) -> FramedText:
        """Return the whole lines."""
        if self._was_cut and data:
            # the line has ended where it was cut, which has its newline already
            self._was_cut, data = False, data.removeprefix(b"\n")
        end = data.rfind(b"\n") + 1
        if end:
            text = bytes(self._rest) + data[:end]
            self._rest.clear()
        else:
            text = b""
        self._rest += data[end:]
        if len(self._rest) >= self._limit:
            text += bytes(self._rest) + b"\n"
            self._rest.clear()
            self._was_cut = True
        return FramedText(text)

    def receive_end(self) -> FramedText:
        """Return the last line."""
        return self.receive_data(b"\n") if self._rest else FramedText()


class SyslogFraming:
    """Messages of syslog, octet-counted or ended by newlines; see above.

    Of a message over *limit* bytes the rest is cut off, and takes no memory. Empty messages are
    left out.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()  # from the first byte of a message, or of a rest, on
        self._searched = 0  # bytes of it that were searched for a newline
        self._rest = 0  # bytes that follow of a counted message that was cut off
        self._rest_of_line = False  # whether the rest of a line follows that was cut off
        self._parts: list[bytes] = []  # messages, each with its newline
        self._lengths: list[int] = []  # their lengths, negative for one that was cut off

    def receive_data(self, data: bytes) -> FramedText:
        """Return the whole messages."""
        buffer, at = self._buffer, 0
        buffer += data
        while at < len(buffer):
            if self._rest:
                skipped = min(self._rest, len(buffer) - at)
                self._rest -= skipped
                at += skipped
            elif self._rest_of_line:
                newline = buffer.find(b"\n", at)
                self._rest_of_line = newline < 0
                at = newline + 1 if newline >= 0 else len(buffer)
            elif (end := self._read_message(at)) is not None:
                at = end
            else:
                break
        del buffer[:at]
        self._searched = max(0, self._searched - at)
        return self._framed()

    def receive_end(self) -> FramedText:
        """Return the last message, which has no end; a counted one lacks some of its bytes."""
        if self._buffer:
            count = self._count_at(0)
            begin = count[1] if count is not None else 0
            self._add(begin, len(self._buffer), cut=count is not None)
            self._buffer.clear()
        return self._framed()

    def _read_message(self, at: int) -> int | None:
        """Add the message at *at* of the buffer; return where it ends, None if more must come."""
        if not _ZERO <= self._buffer[at] <= _NINE:
            return self._read_line(at)
        count = self._count_at(at)
        if count is None:
            digits = len(self._buffer) - at
            may_be_count = digits <= _DIGITS and self._buffer[at:].isdigit()
            return None if may_be_count else self._read_line(at)

        size, begin = count
        kept = min(size, self._limit)
        if len(self._buffer) - begin < kept:
            return None
        self._add(begin, begin + kept, cut=kept < size)
        self._rest = size - kept
        return begin + kept

    def _read_line(self, at: int) -> int | None:
        newline = self._buffer.find(b"\n", max(at, self._searched))
        end = newline if newline >= 0 else len(self._buffer)
        if end - at > self._limit:
            self._add(at, at + self._limit, cut=True)
            self._rest_of_line = True
            return at + self._limit
        if newline < 0:
            self._searched = end
            return None
        self._add(at, end, cut=False)
        return end + 1

    def _count_at(self, at: int) -> tuple[int, int] | None:
        """Return the length that stands at *at*, and where its message begins; None for none."""
        space = self._buffer.find(b" ", at, at + _DIGITS + 1)
        digits = self._buffer[at:space] if space >= 0 else b""
        return (int(digits), space + 1) if digits.isdigit() else None

    def _add(self, begin: int, end: int, *, cut: bool) -> None:
        if end > begin:
            self._parts += (bytes(self._buffer[begin:end]), b"\n")
            size = end - begin + 1
            self._lengths.append(-size if cut else size)

    def _framed(self) -> FramedText:
        framed = FramedText(b"".join(self._parts), self._lengths)
        self._parts, self._lengths = [], []
        return framed
