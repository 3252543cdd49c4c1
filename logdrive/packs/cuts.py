"""Content of the packs of the form CUT_TEXT: lengths, and the text that they cut (rules R1, R8).

    u32 number of lengths, so many times i32 length, the text

A positive length is an event of so many bytes of the text, a negative one is so many bytes of the
file that were left out, none is 0. Integers are big-endian.
"""

import struct
from collections.abc import Sequence
from typing import Final

from logdrive.model.limits import PACK_ITEMS
from logdrive.packs.pack import PackError

_COUNT: Final = struct.Struct("!I")
_LENGTH: Final = 4
"""Bytes of one length."""


def join_cuts(lengths: Sequence[int], text: bytes) -> bytes:
    """Return the content of a pack whose events have *lengths* in *text*, as in a block (R1)."""
    return struct.pack(f"!I{len(lengths)}i", len(lengths), *lengths) + text


def split_cuts(content: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the lengths in *content*, and the text. Raises `PackError` if they do not agree."""
    if len(content) < _COUNT.size:
        raise PackError(f"a pack of cut text of {len(content)} bytes")
    (count,) = _COUNT.unpack_from(content)
    start = _COUNT.size + _LENGTH * count
    if not 0 < count <= PACK_ITEMS or start > len(content):
        raise PackError(f"a pack of {len(content)} bytes with {count} lengths")
    lengths: tuple[int, ...] = struct.unpack_from(f"!{count}i", content, _COUNT.size)
    if 0 in lengths:
        raise PackError("a pack with a length of 0")
    if sum(length for length in lengths if length > 0) != len(content) - start:
        raise PackError("a pack whose lengths are not those of its text")
    return lengths, content[start:]


def count_cuts(size: int, text: int) -> int:
    """Return how many lengths a content of *size* bytes has beside *text* bytes of text.

    Raises `PackError` if no number of lengths makes up the difference, or too many do.
    """
    count, rest = divmod(size - text - _COUNT.size, _LENGTH)
    if rest or not 0 < count <= PACK_ITEMS:
        raise PackError(f"a pack of {size} bytes for {text} bytes of cut text")
    return count
