"""Finds where the written part of a file ends that ends with NULs (rule P5).

Such NULs are what a writer has set aside and not written yet: by fallocate, by a hole, or as zeros.
They are no line as long as nothing follows them. Two searches find what does:

- *forward*, from the end that is known, at each look: writers go on there, as a rule. It stops at a
  block of NULs.
- *backward*, from the end of the file, once after each change that the first search does not
  explain. It finds what was written beyond such a block. A hole costs nothing, and zeros that take
  space are read in portions, so that no look takes long.

Growth in place changes no size, and may leave the time of the last change as it is. So a file that
ends with NULs is never taken for one at rest.
"""

from typing import Final

from agent.config.encodings import UNIT_BYTES
from agent.config.files import InputTable
from logdrive.host.disk import File
from logdrive.model.units import KIB, MIB

_FIRST_BYTES: Final = 4 * KIB
"""Bytes of the first read of a look: most looks find nothing."""
_BLOCK: Final = 64 * KIB
"""Bytes of further reads."""

_FORWARD_BYTES: Final = 8 * MIB
_BACKWARD_BYTES: Final = 16 * MIB
"""Limits on what one look reads."""


def nuls_are_text(settings: InputTable) -> bool:
    """Return whether a NUL at the end of a file may belong to its last line."""
    return "\0" in settings.line_end or settings.canonical_encoding in UNIT_BYTES


class UnwrittenTail:
    """The NULs at the end of one file."""

    __slots__ = ("_searched", "_sought", "size")

    def __init__(self) -> None:
        self.size = 0  # the file's size, the NULs included
        self._sought = (0, 0)  # size and time of the change that the backward search is for
        self._searched = 0  # from here on there are only NULs, as that search has seen

    def find_end(self, file: File, written: int, size: int, modified_ns: int) -> int:
        """Return where the written part of *file* ends, *written* at least.

        *size* and *modified_ns* are the file's. Call it at each look. Raises OSError.
        """
        self.size = size
        change, complete = (size, modified_ns), self._searched <= written
        end = _search_forward(file, written, size)
        if end > written:
            # a change that this explains needs no other search
            if complete and self._sought[0] == size:
                self._sought, self._searched = change, end
            return end

        if self._sought != change:
            self._sought, self._searched = change, size
        return self._search_backward(file, end) if self._searched > end else end

    def _search_backward(self, file: File, written: int) -> int:
        """Return the end of the last byte other than NUL beyond *written*, *written* for none so
        far.
        """
        near = min(self.size, written + _BLOCK)
        # between the two is a hole
        first = file.find_data(near) if self._searched > near else near
        left = _BACKWARD_BYTES
        while self._searched > written and left > 0:
            if near < self._searched <= first:
                self._searched = near
            begin = max(first if self._searched > near else written, self._searched - _BLOCK)
            found = len(file.pread(self._searched - begin, begin).rstrip(b"\0"))
            left -= self._searched - begin
            self._searched = written if found else begin
            if found:
                return begin + found
        return written


def _search_forward(file: File, written: int, size: int) -> int:
    """Return the end of what was written on from *written*, up to a block of NULs."""
    most, block = min(size, written + _FORWARD_BYTES), _FIRST_BYTES
    while written < most:
        found = len(file.pread(min(block, size - written), written).rstrip(b"\0"))
        if not found:
            break
        written, block = written + found, _BLOCK
    return written
