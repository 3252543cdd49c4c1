"""Finds numbers of payment cards: digits in the ranges of issuers, with the check digit of ISO/IEC
7812 (Luhn).

Digits may be parted by single blanks or hyphens. A number begins and ends where such digits do, so
a longer number without them hides none.
"""

import re
from collections.abc import Iterator
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
_LONGEST: Final = 19
_SHORTEST: Final = 13

_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
"""The sum of the digits of twice a digit."""


def find_card_numbers(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans of card numbers in *data*, in order."""
    for match in _MAY_HOLD.finditer(data):
        groups = [group.span() for group in _GROUP.finditer(data, *match.span())]
        first = 0
        while first < len(groups):
            last = _last_group(data, groups, first)
            if last is None:
                first += 1
                continue
            yield groups[first][0], groups[last][1]
            first = last + 1


def _last_group(data: bytes, groups: list[tuple[int, int]], first: int) -> int | None:
    """Return the last of the *groups* of digits of a card number that begins with the *first*."""
    digits, found = b"", None
    for index in range(first, len(groups)):
        begin, end = groups[index]
        if len(digits) + end - begin > _LONGEST:
            break
        digits += data[begin:end]
        if len(digits) >= _SHORTEST and is_card_number(digits):
            found = index
    return found


def is_card_number(digits: bytes) -> bool:
    """Return whether *digits* may be a card number: an issuer's, with the right check digit."""
    if not _ISSUED.fullmatch(digits) or (digits[:1] in b"25" and _wrong_mastercard(digits)):
        return False
    total = sum(digit - 48 for digit in digits[-1::-2])
    return (total + sum(_DOUBLED[digit - 48] for digit in digits[-2::-2])) % 10 == 0


def _wrong_mastercard(digits: bytes) -> bool:
    """Return whether *digits* begin as Mastercard's, and are not 16."""
    return (digits[:1] == b"2" or digits[1:2] in b"12345") and len(digits) != 16
