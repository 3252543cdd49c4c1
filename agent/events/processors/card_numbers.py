"""Finds numbers of payment cards: digits in the ranges of issuers, with the check digit of ISO/IEC
7812 (Luhn).

Digits may be parted by single blanks or hyphens. A number begins and ends where such digits do, so
a longer number without them hides none.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Final

CARD_DIGITS: Final = r"[0-9](?:[ -]?[0-9]){12,}"
"""A pattern of what may hold card numbers."""

_MAY_HOLD: Final = re.compile(rb"[0-9](?:[ -]?[0-9]){12,}")
"""The same. It takes linear time here, too: at each place there is only one way to go on."""
_GROUP: Final = re.compile(rb"[0-9]+")

_ISSUED: Final = re.compile(
    rb"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    rb"|(?:5[1-5]|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d+"  # Mastercard, of 16: see below
    rb"|3[47]\d{13}"  # American Express
    rb"|3(?:0[0-5]|[68]\d)\d{11,16}"  # Diners Club
    rb"|(?:6011|64[4-9]\d|65\d\d)\d{12,15}"  # Discover
    rb"|35(?:2[89]|[3-8]\d)\d{12,15}"  # JCB
    rb"|62\d{14,17}"  # UnionPay
    rb"|(?:50|5[6-9]|6\d)\d{11,17}"  # Maestro
)
_FIRST: Final = b"23456"
"""First digits of issuers."""
_LONGEST: Final = 19
_SHORTEST: Final = 13

_VALUES: Final = bytes.maketrans(b"0123456789", bytes(range(10)))
"""Turns digits into their values."""
_DOUBLED: Final = bytes.maketrans(b"0123456789", bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))
"""Turns digits into the sums of the digits of twice their values."""


def find_card_numbers(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans of card numbers in *data*, in order; about 1 µs a digit at most."""
    for match in _MAY_HOLD.finditer(data):
        begin, end = match.span()
        for first, last in _Digits(data[begin:end]).find_numbers():
            yield begin + first, begin + last


class _Digits:
    """Digits, parted by single blanks or hyphens, or not."""

    def __init__(self, text: bytes) -> None:
        self._digits = text.translate(None, b" -")
        self._groups = [group.span() for group in _GROUP.finditer(text)]
        # counted in digits: where each group begins, and which ends there
        ends = list(accumulate(end - begin for begin, end in self._groups))
        self._starts = [0, *ends]
        self._group_at = {end: index for index, end in enumerate(ends)}

    def find_numbers(self) -> Iterator[tuple[int, int]]:
        """Yield the spans of card numbers in the text, in order."""
        first, digits, starts = 0, self._digits, self._starts
        while first < len(self._groups):
            last = self._last_group(starts[first]) if digits[starts[first]] in _FIRST else None
            if last is not None:
                yield self._groups[first][0], self._groups[last][1]
                first = last
            first += 1

    def _last_group(self, start: int) -> int | None:
        """Return the last group of the longest card number that begins at the digit *start*."""
        for end in range(start + _LONGEST, start + _SHORTEST - 1, -1):
            group = self._group_at.get(end)
            if group is None:
                continue
            # the last digit is not doubled
            sums = self._sums[end % 2 == 0]
            if (sums[end] - sums[start]) % 10 == 0 and _is_issued(self._digits[start:end]):
                return group
        return None

    @cached_property
    def _sums(self) -> tuple[list[int], list[int]]:
        """Sums of the digits before each, where those with an odd index are doubled, and where
        those with an even one are. Two of them say a number's check digit, however many there are.
        """
        digits = self._digits
        odd, even = bytearray(digits.translate(_VALUES)), bytearray(digits.translate(_VALUES))
        odd[1::2], even[::2] = digits[1::2].translate(_DOUBLED), digits[::2].translate(_DOUBLED)
        return list(accumulate(odd, initial=0)), list(accumulate(even, initial=0))


def _is_issued(digits: bytes) -> bool:
    """Return whether *digits* are as many as an issuer's numbers have, and begin as these."""
    if _ISSUED.fullmatch(digits) is None:
        return False
    return digits[:1] not in b"25" or not _wrong_mastercard(digits)


def _wrong_mastercard(digits: bytes) -> bool:
    """Return whether *digits* begin as Mastercard's, and are not 16."""
    return (digits[:1] == b"2" or digits[1:2] in b"12345") and len(digits) != 16
