"""JSON objects, one a line. About 1 µs a line.

Numbers keep all their digits: what neither a 64-bit integer nor a float holds stays as it was
written. A line with a number beyond a float's range, such as 1e400 or an integer of 400 digits, is
not read, and neither is one that is nested deeper than `MOST_LEVELS`: its text is all there is. A
number too small for a float, such as 1e-400, is 0.
"""

import json
import re
from typing import Any, Final

import orjson

from agent.events.event import Event

MOST_LEVELS: Final = 64
"""Limit on the nesting of objects and arrays: each reader of a record follows it."""

_LONG: Final = re.compile(r"-?[0-9.]{17,}")
_IN_NUMBERS: Final = bytes(byte in b"0123456789." for byte in range(256))
_LONG_RUN: Final = b"\1" * 17
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_INT_DIGITS: Final = 19
_FLOAT_DIGITS: Final = 15


def read_json(event: Event) -> dict[str, Any] | None:
    """Return the object that a line is."""
    return read_object(event.message)


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that *text* is, None if it is none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if type(value) is not dict:
        return None
    if text.count("{") + text.count("[") > MOST_LEVELS and _levels(text) > MOST_LEVELS:
        return None
    return with_exact_numbers(value, text)


def with_exact_numbers(value: dict[str, Any], text: str) -> dict[str, Any]:
    """Return *value*, which orjson has read from *text*, with numbers as they were written.

    Those that a 64-bit integer or float may change become `orjson.Fragment`. *text* must not be
    nested deeper than Python's parser goes.
    """
    # most lines have no number that long: this takes a tenth of the search
    if _LONG_RUN not in text.encode().translate(_IN_NUMBERS):
        return value
    if not any(map(_loses_digits, _LONG.findall(text))):
        return value
    exact: dict[str, Any] = json.loads(text, parse_int=_exact_int, parse_float=_exact_float)
    return exact


def _loses_digits(number: str) -> bool:
    """Return whether *number* may be changed by a 64-bit integer or float."""
    return "." in number or len(number) > _INT_DIGITS


def _levels(text: str) -> int:
    """Return how deep a JSON *text* is nested."""
    depth = most = 0
    for mark in _STRING.sub("", text):
        if mark in "{[":
            depth += 1
            most = max(most, depth)
        elif mark in "}]":
            depth -= 1
    return most


def _exact_int(text: str) -> Any:
    return int(text) if len(text) < _INT_DIGITS else orjson.Fragment(text.encode())


def _exact_float(text: str) -> Any:
    digits = sum(map(str.isdigit, text))
    return float(text) if digits <= _FLOAT_DIGITS else orjson.Fragment(text.encode())
