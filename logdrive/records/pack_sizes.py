"""How much text one pack gets: more where text compresses well (rule R8).

What a pack costs besides its compression is the same for a small one and a large one. But a pack is
a record, whose limit holds for what it is compressed to: so a large one is a guess, made where the
last pack became much smaller.
"""

from typing import Final

from logdrive.model.units import KIB

TEXT_BYTES: Final = 700 * KIB
"""Limit on the text of one pack that holds several lines, or a part of one.

Its pack is a record even where it can't be compressed.
"""
LARGE_TEXT_BYTES: Final = 2 * TEXT_BYTES
"""The same where text compresses well."""

_WELL: Final = 3
"""Text compresses well if it becomes so many times smaller: twice would do for a record."""
_TELLING_BYTES: Final = 64 * KIB
"""Text of which so much tells how the next compresses."""


class PackSizes:
    """Sizes the packs of one connection. Any thread may tell it of a pack."""

    def __init__(self) -> None:
        self._compresses_well = False
        self._stays_small = False

    @property
    def text_bytes(self) -> int:
        """Limit on the text of the next pack."""
        large = self._compresses_well and not self._stays_small
        return LARGE_TEXT_BYTES if large else TEXT_BYTES

    def on_packed(self, text: int, packed: int) -> None:
        """Note that so many bytes of *text* became *packed*."""
        if text >= _TELLING_BYTES:
            self._compresses_well = packed * _WELL <= text

    def on_overflow(self) -> None:
        """Make no large packs any more: one was no record."""
        self._stays_small = True
