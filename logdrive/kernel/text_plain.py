"""The loops that run once per line of a file's text, in Python.

`text_loops` uses the compiled ones if there are any; the docstrings here describe both.
"""

from array import array
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate, islice
from operator import add, sub
from typing import Final

import orjson

LF: Final = 0
CRLF: Final = 1
NONE: Final = 3

_QUOTE: Final = ord('"')
_LONGEST: Final = 0x7FFFFFFF  # an offset has 32 bits
_FARTHEST: Final = 1 << 62  # so that no place overflows


def json_text(data: bytes, begin: int, end: int) -> bytes:
    """Return the text of the JSON string that is *data* from *begin* to *end*, quotes included.

    Raises ValueError if that is no JSON string (RFC 8259, section 7), or has half a character in
    UTF-8 or in surrogates.
    """
    string = memoryview(data)[begin:end] if 0 <= begin <= end <= len(data) else b""
    # JSON may have spaces around a string
    if len(string) < 2 or not string[0] == string[-1] == _QUOTE:
        raise ValueError("no JSON string there")
    text: str = orjson.loads(string)
    return text.encode()


Columns = tuple[bytes, bytes, bytes, bytes, bytes | None, bytes | None, bytes]
"""What `split_texts` returns."""


def split_texts(text: bytes, cuts: bytes, starts: bytes, lines: bool) -> Columns:
    """Split texts, which stand back to back in *text*, into events; take their line ends off.

    *cuts* are the places in *text* where a text ends, as native int64: rising, the last is the
    length of *text*. *starts* are where each begins in its file, likewise, up to 2^62. Without
    *lines* each text is one event; else an event ends behind each newline and where its text does.

    Return the events back to back, without the LF or CR LF that ends them; where each begins there,
    as int32, and after these where the last ends; where each begins in its file, as int64; where
    each ends there, behind its line end; the code of each one's line end, a byte each (`LF`,
    `CRLF`, `NONE`), or None if all are LF; whether each one is not UTF-8, a byte each, or None if
    all are; and the number of events of each text, as int64.

    Raises ValueError for other cuts and starts, and if *text* has 2 GiB or more.
    """
    if len(cuts) % 8 or len(starts) != len(cuts) or len(text) > _LONGEST:
        raise ValueError("cuts or starts that are not int64, or a text that is too long")
    ends, begins = array("q", cuts), array("q", starts)
    if (
        any(end <= before for before, end in zip([0, *ends], ends, strict=False))
        or [*ends, 0][len(ends) - 1] != len(text)
        or any(not 0 <= begin <= _FARTHEST for begin in begins)
    ):
        raise ValueError("the cuts do not rise to the end of the text, or no such starts")
    if not lines:
        events = [text[end - size : end] for end, size in zip(ends, _sizes(ends), strict=True)]
        return _columns(text, events, begins, [1] * len(events))
    if len(ends) == 1 and text.isascii() and b"\r" not in text and text.endswith(b"\n"):
        return _split_plain(text, begins[0])

    split = [
        BytesIO(text[end - size : end]).readlines()
        for end, size in zip(ends, _sizes(ends), strict=True)
    ]
    at = [
        place
        for some, begin in zip(split, begins, strict=True)
        for place in islice(accumulate(map(len, some), initial=begin), len(some))
    ]
    return _columns(text, [event for some in split for event in some], at, [*map(len, split)])


def _sizes(ends: Sequence[int]) -> Iterator[int]:
    return map(sub, ends, [0, *ends])


def _columns(
    text: bytes, events: Sequence[bytes], at: Sequence[int], counts: Sequence[int]
) -> Columns:
    """Return the columns of *events*, which begin *at* their places, so many of each text."""
    codes = [_end_code(event) for event in events]
    bare = [event[: len(event) - _SIZES[code]] for event, code in zip(events, codes, strict=True)]
    flawed = [False] * len(bare) if text.isascii() else [not _is_utf8(event) for event in bare]
    return (
        b"".join(bare),
        array("i", accumulate(map(len, bare), initial=0)).tobytes(),
        array("q", at).tobytes(),
        array("q", map(add, at, map(len, events))).tobytes(),
        bytes(codes) if any(codes) else None,
        bytes(flawed) if any(flawed) else None,
        array("q", counts).tobytes(),
    )


def _split_plain(text: bytes, start: int) -> Columns:
    """Split ASCII lines that end with LF, without CR; costs a third of other lines."""
    places = array("q", accumulate(map(len, BytesIO(text)), initial=start))
    offsets = array("i", map(sub, places, range(start, start + len(places))))
    bounds = places.tobytes()
    counts = array("q", [len(places) - 1]).tobytes()
    return (
        text.replace(b"\n", b""),
        offsets.tobytes(),
        bounds[:-8],
        bounds[8:],
        None,
        None,
        counts,
    )


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
