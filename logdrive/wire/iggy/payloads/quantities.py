"""Durations and sizes that R3 takes as texts, such as "7 days 12h" or "1.5 GiB"."""

import re
from typing import Final

from logdrive.wire.iggy.limits import NEVER, U64_MAX, UNLIMITED

_TEXT_CHARACTERS: Final = 100
_PART: Final = re.compile(r"(\d{1,20}(?:\.\d{1,9})?)\s*([a-zµ]+)\s*", re.IGNORECASE)
_SECOND: Final = 1_000_000
_DURATIONS: Final = {
    ("us", "µs", "usec"): 1,
    ("ms", "msec"): 1000,
    ("s", "sec", "secs", "second", "seconds"): _SECOND,
    ("m", "min", "mins", "minute", "minutes"): 60 * _SECOND,
    ("h", "hr", "hrs", "hour", "hours"): 3600 * _SECOND,
    ("d", "day", "days"): 86_400 * _SECOND,
    ("w", "week", "weeks"): 7 * 86_400 * _SECOND,
    ("month", "months"): 2_630_016 * _SECOND,  # 30.44 days
    ("y", "year", "years"): 31_557_600 * _SECOND,  # 365.25 days
}
_SIZES: Final = {
    ("b", "byte", "bytes"): 1,
    ("kb", "k"): 10**3,
    ("mb",): 10**6,
    ("gb",): 10**9,
    ("tb",): 10**12,
    ("kib",): 2**10,
    ("mib",): 2**20,
    ("gib",): 2**30,
    ("tib",): 2**40,
}
_DURATION_UNITS: Final = {name: unit for names, unit in _DURATIONS.items() for name in names}
_SIZE_UNITS: Final = {name: unit for names, unit in _SIZES.items() for name in names}


def parse_duration(text: str) -> int:
    """Return a text's duration in µs; NEVER for "never" and the like. Raises ValueError."""
    if text.strip().lower() in {"never", "none", "unlimited"}:
        return NEVER
    return _total(text, _DURATION_UNITS)


def parse_size(text: str) -> int:
    """Return a text's size in bytes; UNLIMITED for "unlimited" and the like. Raises ValueError."""
    if text.strip().lower() in {"unlimited", "none"}:
        return UNLIMITED
    return _total(text, _SIZE_UNITS)


def _total(text: str, units: dict[str, int]) -> int:
    if len(text) > _TEXT_CHARACTERS:
        raise ValueError(f"a text of {len(text)} characters")
    rest, total = text.strip(), 0.0
    while rest:
        part = _PART.match(rest)
        unit = units.get(part[2].lower()) if part else None
        if part is None or unit is None:
            raise ValueError(f"{text!r} is no quantity with a unit, such as {_example(units)}")
        number = part[1]
        total += float(number) * unit if "." in number else int(number) * unit
        rest = rest[part.end() :]
    if not text.strip() or total > U64_MAX:
        raise ValueError(f"{text!r} is no quantity that can be kept")
    return int(total)


def _example(units: dict[str, int]) -> str:
    return "'7 days'" if units is _DURATION_UNITS else "'1 GiB'"
