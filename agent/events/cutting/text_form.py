"""How the bytes of a source are lines of text: encoding and line end."""

import codecs
from collections.abc import Iterator, Sequence
from typing import Final

from agent.config.encodings import UNIT_BYTES, UTF8, WITHOUT_MARK
from agent.events.event import Event
from logdrive.model.records import PARTIAL, TRUNCATED

_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32", "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16", "utf-16-be"),
)
"""Byte order marks: the encoding that allows each, and the one that it stands for."""

_MARK: Final = "\ufeff"


def encoding_of_file(encoding: str, head: bytes) -> str:
    """Return the codec of a file that begins with *head*, 4 bytes if it has them.

    Only for "utf-16" and "utf-32" does it depend on the file: they are little-endian unless it
    begins with the mark of big-endian ones.
    """
    for mark, declared, actual in _BOMS:
        if encoding == declared and head.startswith(mark):
            return actual
    return WITHOUT_MARK.get(encoding, encoding)


class TextForm:
    """An encoding, and what ends a line in it. Offsets count in the bytes given."""

    def __init__(self, encoding: str, line_end: str, *, drops_mark: bool = False) -> None:
        """Take a codec that names its byte order. *drops_mark*: the file's first character, if it
        is a byte order mark, is no part of its first message.
        """
        self.encoding: Final = encoding
        self._drops_mark = drops_mark
        self._decoder = codecs.getincrementaldecoder(encoding)

        self._end: Final = line_end.encode(encoding)
        # bytes before the line end that belong to it, too
        self._return = "\r".encode(encoding) if line_end == "\n" else b""
        # characters, and so line ends, begin at multiples of it
        self._unit: Final = UNIT_BYTES.get(encoding, 1)
        # "||" in "|||" may be found at two places: only from the front can be told which it is
        self._overlaps = any(
            self._end.startswith(self._end[at:]) for at in range(1, len(self._end))
        )

    def last_end(self, data: bytes, begin: int, position: int) -> int:
        """Return the end of the last line in *data* from *begin* on, which is at *position*; 0
        without a line end.
        """
        if self._overlaps:
            ends = self.line_ends(data, begin, len(data), position)
            return ends[-1] if ends else 0

        at = data.rfind(self._end, begin)
        # two bytes of neighbouring characters may look like a line end
        while at >= 0 and (at - begin + position) % self._unit:
            at = data.rfind(self._end, begin, at + len(self._end) - 1)
        return at + len(self._end) if at >= 0 else 0

    def line_ends(self, data: bytes, begin: int, end: int, position: int) -> list[int]:
        """Return the end of each line in *data[begin:end]*, which begins at *position*; not that
        of a last one without line end.
        """
        ends, size = list[int](), len(self._end)
        if self._unit == 1:
            at = begin
            for line in data[begin:end].split(self._end)[:-1]:
                at += len(line) + size
                ends.append(at)
            return ends

        at = begin
        while (at := data.find(self._end, at, end)) >= 0:
            if (at - begin + position) % self._unit:
                at += 1
                continue
            at += size
            ends.append(at)
        return ends

    def line_texts(self, data: bytes, begin: int, ends: Sequence[int]) -> Iterator[bytes]:
        """Yield what `line_text` returns for each line in *data* from *begin* on, with *ends*."""
        if self.encoding == UTF8 and self._end == b"\n" and data.find(b"\r", begin) < 0:
            # without a call for each
            yield from data[begin : ends[-1]].removesuffix(b"\n").split(b"\n")
            return
        at = begin
        for end in ends:
            yield self.line_text(data[at:end])
            at = end

    def line_text(self, line: bytes) -> bytes:
        """Return the text of *line* without its line end in UTF-8, for patterns."""
        line = line[: len(line) - self._line_end_bytes(line)]
        if self.encoding == UTF8:
            return line
        return line.decode(self.encoding, "replace").encode()

    def cut_at(self, data: bytes, begin: int, end: int) -> int:
        """Return where the last character that begins in *data[begin:end]* and ends after it
        begins: *end* if there is none.
        """
        decoder = self._decoder("replace")
        decoder.decode(data[begin:end])
        cut = end - len(decoder.getstate()[0])
        return cut if cut > begin else end

    def make_event(
        self, data: bytes, start: int, *, longest: int | None, open_end: bool = False
    ) -> Event:
        """Return the event of *data*, which is at *start* in its source.

        Of more than *longest* bytes without line end the first ones are kept. With *open_end* it is
        the part of a line that goes on.
        """
        kept, eol = len(data), 0
        if longest is not None and kept > longest:
            kept = self.kept_bytes(data, start, longest, open_end)
        if kept == len(data) and not open_end:
            eol = self._line_end_bytes(data, start)

        message, original, encoding = self._decode(data[: kept - eol], start)
        flags = (TRUNCATED,) if kept < len(data) else (PARTIAL,) if open_end else ()
        return Event(
            start,
            start + len(data),
            message,
            data[kept - eol : kept].decode(),
            original,
            encoding,
            flags=flags,
            left_out=len(data) - kept,
        )

    def kept_bytes(self, data: bytes, start: int, longest: int, open_end: bool) -> int:
        """Return how many bytes of an event are kept: all, or whole characters of the first
        *longest*; the arguments are those of `make_event`.
        """
        eol = 0 if open_end else self._line_end_bytes(data, start)
        return len(data) if len(data) - eol <= longest else self.cut_at(data, 0, longest)

    def _line_end_bytes(self, line: bytes, start: int = 0) -> int:
        """Return how many of the last bytes of *line*, which is at *start*, are its line end."""
        if not line.endswith(self._end) or (start + len(line)) % self._unit:
            return 0
        size = len(self._end)
        if self._return and line.endswith(self._return, 0, len(line) - size):
            size += len(self._return)
        return size

    def _decode(self, data: bytes, start: int) -> tuple[str, bytes | None, str]:
        """Return the message in *data*, which is at *start*; its exact bytes, if no codec gives
        them back; and the codec that does, "" for UTF-8.
        """
        try:
            text, valid = data.decode(self.encoding), True
        except UnicodeDecodeError:
            text, valid = data.decode(self.encoding, "replace"), False
        if self._drops_mark and start == 0 and text.startswith(_MARK):
            return text[1:], data, ""
        if not valid:
            return text, data, ""
        if self.encoding == UTF8 or text.encode() == data:
            return text, None, ""
        # some bytes have a character that is written with others
        if text.encode(self.encoding, "replace") != data:
            return text, data, ""
        return text, None, self.encoding
