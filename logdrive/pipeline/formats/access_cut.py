"""The usual lines of access logs, cut at their spaces and quotes: a third of what an expression's
groups cost.

Usual is the combined format without escapes, with a sound request and status. Then the first ten
spaces and the fourth quote of a line say where everything is.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.arrays import Booleans, Integers
from logdrive.pipeline.formats.times import civil_times

_WORD = r'[^\s"\[\]]+'
_USUAL: Final = (
    rf"^{_WORD} {_WORD} {_WORD} "
    r"\[\d\d/[A-Za-z]{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "
    r'"[A-Z]{1,32} [^ ?"\\]+(?:\?[^ "\\]*)? HTTP/\d(?:\.\d)?" '
    r'[1-5]\d\d (?:\d{1,18}|-) "[^"\\]*" "[^"\\]*"$'
)
_SPACES = 10  # of a usual line, before its referer
_QUOTES = 6
_MONTHS = [
    int.from_bytes(name.encode())
    for name in (
        "jan",
        "feb",
        "mar",
        "apr",
        "may",
        "jun",
        "jul",
        "aug",
        "sep",
        "oct",
        "nov",
        "dec",
    )
]
_MONTH_NUMBERS = np.argsort(_MONTHS) + 1
_MONTH_CODES = np.sort(_MONTHS)
_LOWER = 0x20  # what makes an ASCII letter a small one


def usual_lines(texts: pa.StringArray) -> pa.BooleanArray:
    """Return which of *texts* `CutLines` can cut."""
    return pc.fill_null(pc.match_substring_regex(texts, _USUAL), False)


class CutLines:
    """The fields of lines that are all usual."""

    def __init__(self, texts: pa.StringArray) -> None:
        """*texts* has no nulls."""
        offsets, self._buffer = texts.buffers()[1:]
        bounds = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]
        self._data = np.frombuffer(self._buffer, np.uint8, int(bounds[-1]))
        self._starts, self._ends = bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)
        spaces = np.flatnonzero(self._data == ord(" "))
        first = np.searchsorted(spaces, self._starts)
        self._spaces = [spaces[first + place] for place in range(_SPACES)]
        quotes = np.flatnonzero(self._data == ord('"'))
        before = int(np.searchsorted(quotes, bounds[0]))  # of other lines, in the same buffer
        self._referer_end = quotes[before + _QUOTES // 2 :: _QUOTES]

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns of `access.SCHEMA` that lines of this kind have."""
        spaces = self._spaces
        path_end, is_query = self._path_ends()
        query = self._texts(np.where(is_query, path_end + 1, spaces[6]), spaces[6])
        size = self._texts(spaces[8] + 1, spaces[9])
        return {
            "client": _or_null(self._texts(self._starts, spaces[0])),
            "user": _or_null(self._texts(spaces[1] + 1, spaces[2])),
            "method": self._texts(spaces[4] + 2, spaces[5]),
            "url_path": self._texts(spaces[5] + 1, path_end),
            "url_query": pc.if_else(pc.equal(query, ""), None, query),
            "protocol": self._texts(spaces[6] + 1, spaces[7] - 1),
            "status": pa.array(self._number(spaces[7] + 1, 3)),
            "bytes": _or_null(size).cast(pa.int64()),
            "referer": _or_null(self._texts(spaces[9] + 2, self._referer_end)),
            "agent": _or_null(self._texts(self._referer_end + 3, self._ends - 1)),
        }

    def times(self) -> tuple[pa.TimestampArray, pa.BooleanArray]:
        """Return the times, and which no clock shows."""
        at = self._spaces[2] + 2
        ahead = self._number(at + 22, 2) * 60 + self._number(at + 24, 2)
        ahead = np.where(self._data[at + 21] == ord("-"), -ahead, ahead)
        return civil_times(
            self._number(at + 7, 4),
            self._month(at + 3),
            self._number(at, 2),
            [self._number(at + place, 2) for place in (12, 15, 18)],
            ahead,
        )

    def _path_ends(self) -> tuple[Integers, Booleans]:
        """Return where the paths end, and whether a query follows."""
        marks = np.append(np.flatnonzero(self._data == ord("?")), len(self._data))
        mark = marks[np.searchsorted(marks, self._spaces[5])]
        is_query = mark < self._spaces[6]
        return np.where(is_query, mark, self._spaces[6]), is_query

    def _texts(self, starts: Integers, ends: Integers) -> pa.StringArray:
        """Return what lies between *starts* and *ends*, which rise together."""
        count = len(starts)
        bounds = np.empty(2 * count + 1, np.int32)
        bounds[:-1:2], bounds[1::2] = starts, ends
        bounds[-1] = bounds[-2] if count else 0
        # fields and what lies between them, by turns
        parts = pa.StringArray.from_buffers(2 * count, pa.py_buffer(bounds), self._buffer)
        return parts.take(pa.array(np.arange(0, 2 * count, 2)))

    def _number(self, at: Integers, digits: int) -> Integers:
        number = np.zeros(len(at), np.int64)
        for place in range(digits):
            number = number * 10 + (self._data[at + place] - ord("0"))
        return number

    def _month(self, at: Integers) -> Integers:
        """Return months by their names, 0 for what is none."""
        code = np.zeros(len(at), np.int64)
        for place in range(3):
            code = (code << 8) | self._data[at + place] | _LOWER
        found = np.minimum(np.searchsorted(_MONTH_CODES, code), len(_MONTH_CODES) - 1)
        return np.where(_MONTH_CODES[found] == code, _MONTH_NUMBERS[found], 0)


def _or_null(texts: pa.StringArray) -> pa.StringArray:
    nothing = pc.or_(pc.equal(texts, "-"), pc.equal(texts, ""))
    return pc.if_else(nothing, None, texts)
