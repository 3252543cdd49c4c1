"""Local times of a zone in UTC, by the rules of the IANA database."""

from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np

from logdrive.pipeline.formats.arrays import Integers

_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_EPOCH = datetime(1970, 1, 1)
UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})


def check_zone(zone: str) -> None:
    """Raise ValueError if *zone* is no zone of the IANA database."""
    if zone not in UTC_NAMES:
        _zone(zone)


def local_to_utc(micros: Integers, zone: str) -> Integers:
    """Return *micros* of the zone's clock since 1970 as microseconds UTC.

    An hour that the clock shows twice is taken for the first one; what it skips, as if it had not
    yet been put forward (PEP 495, fold=0). Python runs once for each hour that there is, and for
    each line of an hour in which the clock was changed.
    """
    if zone in UTC_NAMES or not len(micros):
        return micros
    hours, rows = np.unique(micros // _HOUR, return_inverse=True)
    first = np.array([_offset_at(int(hour) * _HOUR, zone) for hour in hours], np.int64)
    last = np.array([_offset_at(int(hour) * _HOUR + _HOUR - 1, zone) for hour in hours], np.int64)
    offsets = first[rows]
    for row in np.flatnonzero((first != last)[rows]):
        offsets[row] = _offset_at(int(micros[row]), zone)
    return micros - offsets


def _offset_at(micros: int, zone: str) -> int:
    """Return the microseconds that the zone is ahead of UTC when its clock shows *micros*."""
    try:
        local = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=_zone(zone))
        offset = local.utcoffset()
    except OverflowError:  # the first and the last day that datetime knows
        return 0
    return 0 if offset is None else offset // timedelta(microseconds=1)


@cache
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # OSError: a directory, such as "Europe"
        raise ValueError(
            f"no such time zone: {name!r}; give a name of the IANA database, such as Europe/Berlin"
        ) from error
