"""Lines that are JSON objects, as applications' logging libraries write them."""

from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.format import FormatOptions, LogLines, ParsedLines
from logdrive.pipeline.formats.keyed import KeyedPairs, KeyedReader
from logdrive.pipeline.formats.matching import first_reason, record_batch
from logdrive.pipeline.formats.patterns import NO_TIME

_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NO_OBJECT = "no JSON object"
_SEPARATOR = "\0"  # which no JSON text has


class JsonFormat:
    """JSON objects, one a line.

    Well-known keys and those of the options become columns, the rest of the object `rest`.
    Values there are as the line had them, numbers too. Costs Python for each line, some 1 µs.
    """

    name = "json"
    table = "json"

    def __init__(self, options: FormatOptions) -> None:
        self._reader = KeyedReader(options)
        self.schema = self._reader.schema

    def parse(self, lines: LogLines) -> ParsedLines:
        """Return a row for each line."""
        pairs, is_object = _read_objects(lines.message.to_pylist())
        columns, time, invalid = self._reader.read(pairs, lines.received)
        reasons = first_reason(len(lines), (pc.invert(is_object), _NO_OBJECT), (invalid, NO_TIME))
        return ParsedLines(record_batch(self.schema, columns, reasons.is_valid()), time, reasons)


def _read_objects(texts: Sequence[str | None]) -> tuple[KeyedPairs, pa.BooleanArray]:
    """Return what *texts* say, and which are objects."""
    objects = [_read_object(text) for text in texts]
    sizes = np.array([-1 if one is None else len(one) for one in objects], np.int64)
    there = [one for one in objects if one]
    keys = pa.array([*chain.from_iterable(there)], pa.string())
    joined = b"\0".join(chain.from_iterable(map(dict.values, there)))
    values = pc.list_flatten(pc.split_pattern(pa.array([joined], pa.string()), _SEPARATOR))
    rows = np.repeat(np.arange(len(objects)), np.maximum(sizes, 0))
    return KeyedPairs(rows, keys, values.slice(0, len(keys))), pa.array(sizes >= 0)


def _read_object(text: str | None) -> dict[str, msgspec.Raw] | None:
    try:
        return _DECODER.decode(text or "")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
