"""The loops that run once per line of a file's text, in Python.

`text_loops` uses the compiled ones if there are any; the docstrings here describe both.
"""

from array import array
from collections.abc import Sequence
from io import BytesIO
from itertools import accumulate
from operator import sub
from typing import Final

LF: Final = 0
CRLF: Final = 1
NONE: Final = 3

_NEWLINE: Final = 10
_LONGEST: Final = 0x7FFFFFFF  # an offset has 32 bits


def split_text(
    text: bytes, cuts: bytes, lines: bool
) -> tuple[bytes, bytes, bytes, bytes | None, bytes | None]:
    """Split *text* into events, and take their line ends off.

    *cuts* are places in *text* where an event ends, as native int64: rising, the last is the
    length of *text*. With *lines* an event also ends behind each newline.

    Return the events back to back, without the LF or CR LF that ends them; where each begins
    there, as int32, and after these where the last ends; the same for *text*, as int64; the code of
    each one's line end, a byte each (`LF`, `CRLF`, `NONE`), or None if all are LF; and whether each
    one is not UTF-8, a byte each, or None if all are. Raises ValueError for other cuts, and if
    *text* has 2 GiB or more.
    """
    if len(cuts) % 8 or len(text) > _LONGEST:
        raise ValueError("cuts that are not int64, or a text that is too long")
    ends = array("q", cuts)
    if any(end <= before for before, end in zip([0, *ends], ends, strict=False)) or (
        [*ends, 0][len(ends) - 1] != len(text)
    ):
        raise ValueError("the cuts do not rise to the end of the text")

    if lines and text.isascii() and b"\r" not in text and _end_with_newlines(text, ends):
        return _split_plain(text)
    events: list[bytes] = []
    before = 0
    for end in ends:
        if lines:
            events += BytesIO(text[before:end])
        else:
            events.append(text[before:end])
        before = end

    codes = [_end_code(event) for event in events]
    bare = [event[: len(event) - _SIZES[code]] for event, code in zip(events, codes, strict=True)]
    flawed = [False] * len(bare) if text.isascii() else [not _is_utf8(event) for event in bare]
    return (
        b"".join(bare),
        array("i", accumulate(map(len, bare), initial=0)).tobytes(),
        array("q", accumulate(map(len, events), initial=0)).tobytes(),
        bytes(codes) if any(codes) else None,
        bytes(flawed) if any(flawed) else None,
    )


def _end_with_newlines(text: bytes, ends: Sequence[int]) -> bool:
    return all(text[end - 1] == _NEWLINE for end in ends)


def _split_plain(text: bytes) -> tuple[bytes, bytes, bytes, None, None]:
    """Split ASCII lines that end with LF, without CR; costs a third of other lines."""
    places = array("q", accumulate(map(len, BytesIO(text)), initial=0))
    offsets = array("i", map(sub, places, range(len(places))))
    return text.replace(b"\n", b""), offsets.tobytes(), places.tobytes(), None, None


_SIZES: Final = (1, 2, 1, 0)  # of line ends, by their codes


def _end_code(event: bytes) -> int:
    if not event.endswith(b"\n"):
        return NONE
    return CRLF if event.endswith(b"\r\n") else LF


def _is_utf8(event: bytes) -> bool:
    try:
        event.decode()
    except UnicodeDecodeError:
        return False
    return True
