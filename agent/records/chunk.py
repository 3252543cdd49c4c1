"""Text of one source as it was read: what encoders are given."""

from dataclasses import dataclass
from typing import Final

from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import number_of

CHUNK_BYTES: Final = 512 * 1024
"""Read at once: two blocks, one run."""


@dataclass(frozen=True, slots=True)
class TextChunk:
    """Text from position *start* on, whole lines unless the last is cut on purpose; with *open_end*
    more of that line follows.

    The text is *data[begin:end]*, uncopied; before it stand the up to 256 bytes before *start*.
    """

    start: int
    data: bytes
    begin: int
    end: int
    open_end: bool = False

    @classmethod
    def whole(cls, data: bytes) -> "TextChunk":
        """Return all there is of a file."""
        return cls(0, data, 0, len(data))

    @property
    def text(self) -> bytes:
        """The text itself, copied."""
        return self.data[self.begin : self.end]

    def tail_at(self, position: int) -> bytes:
        """Return the up to 256 bytes before *position*, which is not before *start*."""
        place = self.begin + position - self.start
        return self.data[max(0, place - TAIL_BYTES) : place]

    def number_at(self, position: int) -> int:
        """Return the number of a position in it (rule P1)."""
        return number_of(position, self.tail_at(position))
