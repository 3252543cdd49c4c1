"""Times that lines say, as columns: from groups of digits to microseconds since 1970, UTC.

The groups that an expression may have are `year` (two digits mean 1969–2068), `month` (a number, or
the first three letters of its English name), `day`, `hour`, `minute`, `second`, `fraction` (of a
second, any number of digits; those behind the sixth are dropped) or `millisecond`, `zone` (`Z`,
`UTC`, `GMT` or ±hh:mm), and `epoch` (seconds since 1970) instead of all but the fraction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.arrays import Booleans, Integers, to_booleans, to_integers
from logdrive.pipeline.formats.format import time_array
from logdrive.pipeline.formats.matching import Groups
from logdrive.pipeline.formats.zones import local_to_utc

TIME_GROUPS: Final = frozenset(
    {"year", "month", "day", "hour", "minute", "second", "fraction", "millisecond", "zone", "epoch"}
)


_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_MONTHS = pa.array("jan feb mar apr may jun jul aug sep oct nov dec".split())  # noqa: SIM905
_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_CENTURY = 69  # years below it are of this century
_FIRST = -719_162 * _DAY  # of the year 1
_LAST = 2_932_897 * _DAY - 1  # of the year 9999: what Python and most readers can show
_AHEAD = _DAY  # that a time without a year may be after `received`: clocks differ
_LEAP_YEARS = 8  # from one 29 February to the next at most


@dataclass(frozen=True, slots=True)
class ReadTimes:
    """Times of lines."""

    time: pa.TimestampArray
    """Null where there is none."""
    invalid: pa.BooleanArray
    """Whether the line says a time that no clock shows, such as 30 February or a leap second."""


def read_times(groups: Groups, received: pa.TimestampArray, zone: str) -> ReadTimes:
    """Return the times that *groups* say, those without a zone of their own in *zone*.

    A time without a year gets the latest year in which it is no more than a day after *received*;
    none where that is null.
    """
    matched = to_booleans(groups.matched)
    said = _says_time(groups, matched)
    fraction = _fraction(groups, len(matched))
    if "epoch" in groups.values:
        micros = _numbers(groups, "epoch") * _SECOND + fraction
        return _result(micros, said, np.zeros(len(matched), np.bool_))

    month, day = _month(groups), _numbers(groups, "day")
    clock, sound = _clock(groups, fraction)
    if "year" in groups.values:
        year = _year(groups)
        micros = _days(year, month, day) * _DAY + clock
        sound &= _in_calendar(year, month, day)
        micros = _to_utc(groups, micros, zone)
        sound &= _shown(micros)
        return _result(micros, said & sound, said & ~sound)

    arrivals = received.cast(pa.int64())
    known = to_booleans(arrivals.is_valid())
    sound &= _in_calendar(np.full(len(month), 2000), month, day)
    micros, dated = _guess_year(
        month, day, clock, to_integers(pc.fill_null(arrivals, 0)), sound, zone
    )
    return _result(micros, said & sound & known & dated, said & ~sound)


def _says_time(groups: Groups, matched: Booleans) -> Booleans:
    """Return which lines have a time at all: it may be optional in the expression."""
    texts = groups.values["epoch" if "epoch" in groups.values else "day"]
    return matched & to_booleans(pc.not_equal(texts, ""))


def civil_times(
    year: Integers, month: Integers, day: Integers, clock: Sequence[Integers], ahead: Integers
) -> tuple[pa.TimestampArray, pa.BooleanArray]:
    """Return times by the calendar, and which of them no clock shows.

    *clock* is hours, minutes and seconds, *ahead* the minutes that the zone is ahead of UTC.
    """
    micros, sound = _on_clock(*clock)
    micros += _days(year, month, day) * _DAY - ahead * 60 * _SECOND
    sound &= _in_calendar(year, month, day) & _shown(micros)
    times = _result(micros, sound, ~sound)
    return times.time, times.invalid


def _result(micros: Integers, here: Booleans, invalid: Booleans) -> ReadTimes:
    return ReadTimes(time_array(pa.array(micros, mask=~here)), pa.array(invalid))


def _numbers(groups: Groups, name: str) -> Integers:
    """Return a group as numbers, 0 where it is empty or did not match."""
    return _as_numbers(groups.values[name])


def _as_numbers(texts: pa.StringArray) -> Integers:
    filled = pc.if_else(pc.equal(texts, ""), "0", texts)
    return to_integers(filled.cast(pa.int64()))


def _fraction(groups: Groups, count: int) -> Integers:
    if "millisecond" in groups.values:
        return _numbers(groups, "millisecond") * 1000
    if "fraction" not in groups.values:
        return np.zeros(count, np.int64)
    digits = pc.utf8_slice_codeunits(groups.values["fraction"], 0, 6)
    return _as_numbers(pc.ascii_rpad(digits, 6, "0"))


def _year(groups: Groups) -> Integers:
    texts = groups.values["year"]
    year = _as_numbers(texts)
    short = to_booleans(pc.equal(pc.binary_length(texts), 2))
    return np.where(short, np.where(year < _CENTURY, year + 2000, year + 1900), year)


def _month(groups: Groups) -> Integers:
    texts = groups.values["month"]
    if len(texts) and pc.any(pc.ascii_is_alpha(texts)).as_py():
        found = pc.index_in(pc.ascii_lower(texts), _MONTHS)
        return to_integers(pc.fill_null(found, -1)) + 1
    return _as_numbers(texts)


def _clock(groups: Groups, fraction: Integers) -> tuple[Integers, Booleans]:
    """Return microseconds since midnight, and whether a clock shows them."""
    micros, sound = _on_clock(*(_numbers(groups, name) for name in ("hour", "minute", "second")))
    return micros + fraction, sound


def _on_clock(hour: Integers, minute: Integers, second: Integers) -> tuple[Integers, Booleans]:
    sound = (hour < 24) & (minute < 60) & (second < 60)  # 60 is a leap second: no clock of ours
    return ((hour * 60 + minute) * 60 + second) * _SECOND, sound


def _shown(micros: Integers) -> Booleans:
    return (micros >= _FIRST) & (micros <= _LAST)


def _in_calendar(year: Integers, month: Integers, day: Integers) -> Booleans:
    in_year = (month >= 1) & (month <= 12)
    last = _DAYS[np.where(in_year, month - 1, 0)] + ((month == 2) & _is_leap(year))
    return np.asarray(in_year & (day >= 1) & (day <= last))


def _is_leap(year: Integers) -> Booleans:
    return np.asarray((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))


def _days(year: Integers, month: Integers, day: Integers) -> Integers:
    """Return days since 1970 in the Gregorian calendar, by years that begin in March."""
    early = month <= 2
    year = year - early
    of_year = (153 * (month + np.where(early, 9, -3)) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719_468


def _guess_year(
    month: Integers, day: Integers, clock: Integers, received: Integers, sound: Booleans, zone: str
) -> tuple[Integers, Booleans]:
    """Return times in the latest year that fits, and whether there is one."""
    latest = received.astype("datetime64[us]").astype("datetime64[Y]").astype(np.int64) + 1971
    micros = np.zeros(len(month), np.int64)
    open_ = sound.copy()
    for back in range(_LEAP_YEARS + 2):
        rows = np.flatnonzero(open_)
        if not len(rows):
            break
        year = latest[rows] - back
        there = _in_calendar(year, month[rows], day[rows])
        guess = local_to_utc(_days(year, month[rows], day[rows]) * _DAY + clock[rows], zone)
        fits = there & (guess <= received[rows] + _AHEAD)
        micros[rows[fits]] = guess[fits]
        open_[rows[fits]] = False
    return micros, ~open_


def _to_utc(groups: Groups, micros: Integers, zone: str) -> Integers:
    """Return local times in UTC, by the zone that each says, else by *zone*."""
    if "zone" not in groups.values:
        return local_to_utc(micros, zone)
    texts = groups.values["zone"]
    unsaid = to_booleans(pc.equal(texts, ""))
    if not unsaid.all():
        said = texts.dictionary_encode()
        offsets = np.array([_offset(one) for one in said.dictionary.to_pylist()], np.int64)
        micros = micros - offsets[to_integers(said.indices)]
    if unsaid.any():
        micros[unsaid] = local_to_utc(micros[unsaid], zone)
    return micros


def _offset(zone: str) -> int:
    """Return microseconds that *zone*, ±hhmm, ±hh:mm, ±hh or a name of UTC, is ahead of UTC."""
    digits = zone[1:].replace(":", "").ljust(4, "0")
    if zone[:1] not in {"+", "-"}:
        return 0
    size = (int(digits[:2]) * 60 + int(digits[2:4])) * 60 * _SECOND
    return -size if zone[0] == "-" else size
