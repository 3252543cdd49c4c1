"""Lines of keys and values as columns: well-known keys have their own, whatever a library calls
them; the others are members of `rest`.

A value that its column can't hold, such as a status of "none", is left in `rest`. Nothing is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.formats.arrays import Integers, to_booleans, to_integers
from logdrive.pipeline.formats.fingerprints import fingerprint_texts
from logdrive.pipeline.formats.format import FormatOptions
from logdrive.pipeline.formats.json_text import json_objects_of_pairs, json_strings
from logdrive.pipeline.formats.values import CONVERSIONS, Conversion


@dataclass(frozen=True, slots=True)
class KeyedPairs:
    """Keys and values of lines, one after the other."""

    rows: Integers
    """The line of each; they never fall."""
    keys: pa.StringArray
    values: pa.StringArray
    """JSON texts."""


@dataclass(frozen=True, slots=True)
class KeyedColumn:
    """A column of well-known keys."""

    conversion: str
    keys: tuple[str, ...]
    """The first that a line has counts; what it has of the others is left in `rest`."""


_TIMES = ("@timestamp", "timestamp", "time", "ts", "datetime", "date", "eventTime")
COLUMNS: Final[Mapping[str, KeyedColumn]] = {
    "level": KeyedColumn(
        "level", ("level", "severity", "lvl", "log.level", "levelname", "loglevel", "severity_text")
    ),
    "logger": KeyedColumn(
        "string", ("logger", "logger_name", "loggerName", "log.logger", "component", "caller")
    ),
    "thread": KeyedColumn("string", ("thread", "thread_name", "threadName", "process.thread.name")),
    "service_name": KeyedColumn(
        "string", ("service", "service.name", "service_name", "serviceName", "app")
    ),
    "trace_id": KeyedColumn("string", ("trace_id", "traceId", "trace.id", "traceID")),
    "span_id": KeyedColumn("string", ("span_id", "spanId", "span.id", "spanID")),
    "status": KeyedColumn(
        "short", ("status", "status_code", "statusCode", "http.response.status_code")
    ),
    "seconds": KeyedColumn("seconds", ("duration_s", "duration_seconds", "elapsed_seconds")),
    "message": KeyedColumn("string", ("message", "msg", "event", "body")),
    "error": KeyedColumn("string", ("error", "err", "exception", "exc_info", "error.message")),
    "stack": KeyedColumn(
        "string", ("stack_trace", "stacktrace", "stack", "exc_text", "error.stack_trace")
    ),
}
_DURATIONS = {
    "duration_ms": "milliseconds",
    "latency_ms": "milliseconds",
    "elapsed_ms": "milliseconds",
    "response_time_ms": "milliseconds",
    "durationMs": "milliseconds",
    "duration": "duration",
    "latency": "duration",
    "elapsed": "duration",
    "took": "duration",
}
"""Keys of durations in other units; the last four only with a unit, such as "12ms"."""
_ARROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "level": pa.string(),
    "short": pa.int16(),
    "seconds": pa.float64(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": TIME,
}
COLUMN_TYPES: Final = ("string", "int", "float", "bool", "time")
"""What `FormatOptions.columns` may name."""


def type_name(type_: pa.DataType) -> str:
    """Return what `FormatOptions.columns` call the type of a column; else Arrow's name."""
    names = (name for name in COLUMN_TYPES if _ARROW_TYPES[name] == type_)
    return next(names, str(type_))


class KeyedReader:
    """Makes columns of pairs."""

    def __init__(self, options: FormatOptions) -> None:
        self._zone = options.zone
        own = {key: KeyedColumn(kind, (key,)) for key, kind in options.columns.items()}
        self._columns = {**COLUMNS, **own}
        self.schema = pa.schema(
            [
                *(
                    pa.field(name, _ARROW_TYPES[one.conversion])
                    for name, one in self._columns.items()
                ),
                pa.field("rest", pa.string()),
                pa.field("fingerprint", pa.string()),
            ]
        )

    def read(
        self, pairs: KeyedPairs, received: pa.TimestampArray
    ) -> tuple[dict[str, pa.Array], pa.TimestampArray, pa.BooleanArray]:
        """Return the columns of the lines, their times, and which of these no clock shows."""
        taking = _Taking(_drop_repeated(pairs), len(received), received, self._zone)
        columns: dict[str, pa.Array] = {}
        # those that the operator named go before
        for name, column in reversed(self._columns.items()):
            conversions = dict.fromkeys(column.keys, column.conversion)
            if name == "seconds":
                conversions |= _DURATIONS
            columns[name] = taking.take_column(conversions, _ARROW_TYPES[column.conversion])
        time = taking.take_column(dict.fromkeys(_TIMES, "time"), TIME)
        columns["rest"] = taking.rest()
        columns["fingerprint"] = fingerprint_texts(pc.coalesce(columns["stack"], columns["error"]))
        return columns, time, taking.invalid()


class _Taking:
    """The pairs of lines, while columns take theirs."""

    def __init__(
        self, pairs: KeyedPairs, count: int, received: pa.TimestampArray, zone: str
    ) -> None:
        self._pairs, self._count, self._received, self._zone = pairs, count, received, zone
        encoded = pairs.keys.dictionary_encode()
        self._codes = to_integers(encoded.indices)
        self._known = {key: code for code, key in enumerate(encoded.dictionary.to_pylist())}
        self._left = np.ones(len(pairs.rows), np.bool_)
        self._invalid = np.zeros(count, np.bool_)

    def take_column(self, conversions: Mapping[str, str], type_: pa.DataType) -> pa.Array:
        """Return a column: of each line the value of its first key among *conversions*."""
        place = np.full(self._count, -1)
        parts: list[pa.Array] = []
        taken = 0
        for key, conversion in conversions.items():
            if key not in self._known:
                continue
            pairs = np.flatnonzero((self._codes == self._known[key]) & self._left)
            pairs = pairs[place[self._pairs.rows[pairs]] < 0]
            values = self._convert(pairs, CONVERSIONS[conversion]).cast(type_)
            good = to_booleans(values.is_valid())
            place[self._pairs.rows[pairs[good]]] = np.arange(taken, taken + good.sum())
            self._left[pairs[good]] = False
            parts.append(values.filter(pa.array(good)))
            taken += int(good.sum())
        if not parts:
            return pa.nulls(self._count, type_)
        return pa.concat_arrays(parts).take(pa.array(place, mask=place < 0))

    def _convert(self, pairs: Integers, conversion: Conversion) -> pa.Array:
        rows = self._pairs.rows[pairs]
        texts = self._pairs.values.take(pa.array(pairs))
        values, invalid = conversion(texts, self._received.take(pa.array(rows)), self._zone)
        if invalid is not None:
            self._invalid[rows[invalid]] = True
        return values

    def rest(self) -> pa.StringArray:
        """Return what no column took."""
        left = pa.array(self._left)
        keys = self._pairs.keys.filter(left).dictionary_encode()
        names = json_strings(keys.dictionary).take(keys.indices)
        return json_objects_of_pairs(
            self._count, self._pairs.rows[self._left], names, self._pairs.values.filter(left)
        )

    def invalid(self) -> pa.BooleanArray:
        """Return which lines say a time that no clock shows."""
        return pa.array(self._invalid)


def _drop_repeated(pairs: KeyedPairs) -> KeyedPairs:
    """Return *pairs* without those whose key comes again in the same line, and without nulls."""
    encoded = pairs.keys.dictionary_encode()
    codes = to_integers(encoded.indices)
    names = pairs.rows * len(encoded.dictionary) + codes
    keep = np.zeros(len(names), np.bool_)
    _, last = np.unique(names[::-1], return_index=True)
    keep[len(names) - 1 - last] = True
    if keep.all():
        return pairs
    mask = pa.array(keep)
    return KeyedPairs(pairs.rows[keep], pairs.keys.filter(mask), pairs.values.filter(mask))
