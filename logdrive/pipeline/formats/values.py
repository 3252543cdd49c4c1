"""JSON texts of single values as typed columns: null where the value is of another type."""

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.arrays import Booleans, to_booleans
from logdrive.pipeline.formats.format import time_array
from logdrive.pipeline.formats.json_text import read_json_strings
from logdrive.pipeline.formats.levels import normal_levels
from logdrive.pipeline.formats.matching import Groups, match_groups
from logdrive.pipeline.formats.times import read_times

Conversion = Callable[[pa.StringArray, pa.TimestampArray, str], tuple[pa.Array, Booleans | None]]
"""From JSON texts, `received` and a zone to values, and which of them are times that no clock
shows.
"""

_INTEGER = r'^"?(?P<number>-?\d{1,18})"?$'
_NUMBER = r'^"?(?P<number>-?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,2})?)"?$'
_DURATION = r'^"(?P<number>\d{1,12}(?:\.\d{1,12})?) ?(?P<unit>ns|us|µs|μs|ms|s|m|h)"$'
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_TIME = (
    r'^"(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ](?P<hour>\d\d):(?P<minute>\d\d)'
    r":(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))? ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?\"$"
)
_EPOCH = r'^"?(?P<whole>[1-8]\d{18}|\d{1,18})(?:\.(?P<part>\d{1,18}))?"?$'
_EPOCH_UNITS = ((11, 1_000_000), (14, 1_000), (17, 1))
"""Up to how many digits a number counts seconds, milli- or microseconds; with more, nanoseconds."""
_LOG_LEVELS = {
    "10": "trace",
    "20": "debug",
    "30": "info",
    "40": "warn",
    "50": "error",
    "60": "fatal",
}
"""Integers of bunyan and pino."""
_SHORT = 32_767


def unquote(texts: pa.StringArray) -> pa.StringArray:
    """Return what JSON strings say; other JSON as it is, and null for `null`."""
    quoted = pc.starts_with(texts, '"')
    escaped = pc.and_(quoted, pc.match_substring(texts, "\\"))
    plain = pc.if_else(
        quoted, pc.binary_slice(texts.cast(pa.binary()), 1, -1), texts.cast(pa.binary())
    )
    plain = pc.if_else(pc.equal(texts, "null"), None, plain.cast(pa.string()))
    if not escaped.true_count:
        return plain
    read = read_json_strings(texts.filter(escaped).to_pylist())
    return pc.replace_with_mask(plain, escaped, pa.array(read, pa.string()))


def _to_string(
    texts: pa.StringArray, received: pa.TimestampArray, zone: str
) -> tuple[pa.Array, None]:
    return unquote(texts), None


def _to_level(
    texts: pa.StringArray, received: pa.TimestampArray, zone: str
) -> tuple[pa.Array, None]:
    said = texts.dictionary_encode()
    words = [_LOG_LEVELS.get(one, one) for one in unquote(said.dictionary).to_pylist()]
    return normal_levels(pa.array(words, pa.string()).take(said.indices)), None


def _to_int(texts: pa.StringArray, received: pa.TimestampArray, zone: str) -> tuple[pa.Array, None]:
    return match_groups(texts, _INTEGER).number("number"), None


def _to_short(
    texts: pa.StringArray, received: pa.TimestampArray, zone: str
) -> tuple[pa.Array, None]:
    values = match_groups(texts, _INTEGER).number("number")
    return pc.if_else(pc.less_equal(pc.abs(values), _SHORT), values, None), None


def _to_float(
    texts: pa.StringArray, received: pa.TimestampArray, zone: str
) -> tuple[pa.Array, None]:
    return match_groups(texts, _NUMBER).text("number").cast(pa.float64()), None


def _to_milliseconds(
    texts: pa.StringArray, received: pa.TimestampArray, zone: str
) -> tuple[pa.Array, None]:
    return pc.divide(_to_float(texts, received, zone)[0], 1000.0), None


def _to_duration(
    texts: pa.StringArray, received: pa.TimestampArray, zone: str
) -> tuple[pa.Array, None]:
    groups = match_groups(texts, _DURATION)
    units = groups.text("unit").dictionary_encode()
    factors = pa.array([_UNITS[one] for one in units.dictionary.to_pylist()], pa.float64())
    number = groups.text("number").cast(pa.float64())
    return pc.multiply(number, factors.take(units.indices)), None


def _to_bool(
    texts: pa.StringArray, received: pa.TimestampArray, zone: str
) -> tuple[pa.Array, None]:
    said = pc.ascii_lower(unquote(texts))
    true, false = pc.equal(said, "true"), pc.equal(said, "false")
    return pc.if_else(pc.or_(true, false), true, None), None


def _to_time(
    texts: pa.StringArray, received: pa.TimestampArray, zone: str
) -> tuple[pa.Array, Booleans | None]:
    groups = match_groups(texts, _TIME)
    times = read_times(groups, received, zone)
    epochs = match_groups(texts, _EPOCH)
    both = pc.coalesce(times.time, _epoch_times(epochs))
    return both, to_booleans(times.invalid)


def _epoch_times(groups: Groups) -> pa.TimestampArray:
    """Return times of seconds, milliseconds, micro- or nanoseconds since 1970, by their size."""
    whole = groups.number("whole")
    digits = pc.binary_length(whole.cast(pa.string()))
    micros = pc.divide(whole, 1000)
    for most, factor in reversed(_EPOCH_UNITS):
        fits = pc.less_equal(digits, most)
        micros = pc.if_else(fits, pc.multiply(pc.if_else(fits, whole, None), factor), micros)
    part = pc.ascii_rpad(pc.utf8_slice_codeunits(groups.values["part"], 0, 6), 6, "0")
    in_seconds = pc.less_equal(digits, _EPOCH_UNITS[0][0])
    part = pc.if_else(in_seconds, part.cast(pa.int64()), 0)
    return time_array(pc.add(micros, part))


CONVERSIONS: Final[Mapping[str, Conversion]] = {
    "string": _to_string,
    "level": _to_level,
    "int": _to_int,
    "short": _to_short,
    "float": _to_float,
    "seconds": _to_float,
    "milliseconds": _to_milliseconds,
    "duration": _to_duration,
    "bool": _to_bool,
    "time": _to_time,
}
"""By name."""
