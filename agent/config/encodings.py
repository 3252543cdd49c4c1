"""Encodings of files: those of Python whose text can be cut at line ends wherever one begins to
read.
"""

import codecs
from functools import lru_cache
from typing import Final

UTF8: Final = "utf-8"
"""The encoding of a file of which nothing is said."""

UNIT_BYTES: Final = {
    "utf-16": 2,
    "utf-16-le": 2,
    "utf-16-be": 2,
    "utf-32": 4,
    "utf-32-le": 4,
    "utf-32-be": 4,
}
"""Encodings whose characters take a multiple of so many bytes; all others take any number."""

WITHOUT_MARK: Final = {"utf-16": "utf-16-le", "utf-32": "utf-32-le", "utf-8-sig": UTF8}
"""What these encodings are in a file without a byte order mark."""

EAST_ASIAN: Final = frozenset(
    (
        "big5",
        "big5hkscs",
        "cp932",
        "cp949",
        "cp950",
        "euc_jis_2004",
        "euc_jisx0213",
        "euc_jp",
        "euc_kr",
        "gb18030",
        "gb2312",
        "gbk",
        "johab",
        "shift_jis",
        "shift_jis_2004",
        "shift_jisx0213",
    )
)
"""Encodings with characters of several bytes, of which a later one may be a byte from 0x40 on or,
in gb18030, that of a digit.
"""

_SHIFTING: Final = ("utf-7", "hz", "iso2022")
"""Beginnings of the names of encodings in which bytes mean what those before them say."""

_NO_TEXT: Final = frozenset(("unicode-escape", "raw-unicode-escape", "charmap"))
"""Encodings of literals, and of tables that a program brings along."""

_ASCII: Final = b"\0\t\n\r 09AZaz"
"""Bytes that must be the characters of ASCII."""


@lru_cache
def canonical_encoding(name: str) -> str:
    """Return Python's own name of the encoding *name*. Raises ValueError for one of no file."""
    try:
        found = codecs.lookup(name).name
        in_ascii = _ASCII.decode(found) == _ASCII.decode() if found not in UNIT_BYTES else True
        single = [bytes([byte]).decode(found, "replace") for byte in range(256)]
    except (LookupError, ValueError, UnicodeError) as error:
        raise ValueError(
            f"{name!r} is no encoding that is known: name one of Python's, such as utf-8, "
            "utf-16-le, latin-1, cp1252, shift_jis or gbk"
        ) from error

    if found.startswith(_SHIFTING):
        raise ValueError(
            f"{name!r} shifts between character sets, so text can't be read from its middle: "
            "convert such files first (iconv)"
        )
    known = found in (UTF8, "utf-8-sig") or found in UNIT_BYTES or found in EAST_ASIAN
    # one byte, one character; the other codecs of Python are for URLs, names or literals
    is_table = found not in _NO_TEXT and all(len(character) == 1 for character in single)
    if not known and not is_table:
        raise ValueError(f"{name!r} is no encoding of files")
    if not in_ascii:
        raise ValueError(
            f"{name!r} has no ASCII, and other line ends: convert such files first (iconv)"
        )
    return found
