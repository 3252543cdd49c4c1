"""Text of one source as read from its input: the argument of encoders."""

from dataclasses import dataclass
from typing import Final

from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import number_of

CHUNK_BYTES: Final = 512 * 1024
"""Bytes read at once for records: two blocks, which make one run."""


@dataclass(frozen=True, slots=True)
class TextChunk:
    """Consecutive text of one source: whole lines, but for the last, which may lack its newline.

    The text is *data[begin:end]*; it is not copied. The up to 256 bytes before it in the file come
    before it in *data*: the check of a position is made from them (rule P1).
    """

    start: int
    """The position of the text's first byte."""

    data: bytes
    """The bytes as they were read, the text among them."""

    begin: int
    """Offset of the text in *data*."""

    end: int
    """Offset after the text in *data*."""

    open_end: bool = False
    """Whether the last line goes on in the next chunk, being too long for one."""

    in_line: bool = False
    """Whether the text goes on with the last line of the chunk before, which had an open end."""

    @classmethod
    def from_whole_file(cls, data: bytes) -> "TextChunk":
        """Return a chunk of all bytes of a file."""
        return cls(0, data, 0, len(data))

    def tail_at(self, position: int) -> bytes:
        """Return the up to 256 bytes before *position*, which must not be before *start*."""
        offset = self.begin + position - self.start
        return self.data[max(0, offset - TAIL_BYTES) : offset]

    def number_at(self, position: int) -> int:
        """Return the number of *position*, which must be in the text (rule P1)."""
        return number_of(position, self.tail_at(position))
