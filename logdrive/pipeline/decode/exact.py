"""Dumps JSON with numbers as they were written: orjson turns integers beyond 64 bits into floats.

Seldom needed, so written for the reader and not for speed: about 20 µs per record.
"""

import json
from typing import Any

import orjson


class _Number(str):
    """A number's text."""

    __slots__ = ()


def may_have_lost_digits(dumped: bytes) -> bool:
    """Return whether *dumped*, JSON from orjson, may have a float where an integer was written.

    Such a float is 2^63 or more, so it has an exponent.
    """
    return b"e+" in dumped


def dump_as_written(value: Any, payload: bytes, *place: str) -> str:
    """Return *value* as JSON, with its numbers as in *payload*.

    *value* is what orjson parsed from the object *payload* at the keys *place*, perhaps with some
    keys removed. Raises ValueError if *payload* is nested too deep.
    """
    try:
        written = json.loads(payload, parse_int=_Number, parse_float=_Number)
        for name in place:
            written = written[name]
        return _text(value, written)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _text(value: Any, written: Any) -> str:
    if isinstance(written, _Number):  # its own text, whatever orjson made of it
        return str(written)
    if isinstance(value, dict) and isinstance(written, dict):
        return (
            "{"
            + ",".join(
                f"{_dumped(key)}:{_text(one, written.get(key))}" for key, one in value.items()
            )
            + "}"
        )
    if isinstance(value, list) and isinstance(written, list) and len(value) == len(written):
        return "[" + ",".join(map(_text, value, written)) + "]"
    # also what was not there, as with pairs of Lumberjack v1 in another shape
    return _dumped(value)


def _dumped(value: Any) -> str:
    return orjson.dumps(value).decode()
