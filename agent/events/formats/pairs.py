r"""Lines of keys and values: logfmt, and others whose separators are configured.

    time=2026-01-02T03:04:05Z level=info msg="order \"7\" placed"

A value with separators stands in quotes, with escapes as in JSON. All values are text.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from agent.events.event import Event

_QUOTED: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_PAIR: Final = rf'([A-Za-z_@][\w.@/-]*+)=({_QUOTED}|[^\s"]*+)(?:[ \t]++|$)'
_PAIRS: Final = re.compile(_PAIR)
_LINE: Final = re.compile(rf"[ \t]*+(?:{_PAIR})++[ \t\r]*+")


def read_logfmt(event: Event) -> dict[str, Any] | None:
    """Return the pairs of a line that is nothing else."""
    line = event.message
    if _LINE.fullmatch(line) is None:
        return None
    return {
        key: _unquoted(value) if value[:1] == '"' else value for key, value in _PAIRS.findall(line)
    }


def pairs_reader(between: str, sign: str) -> Callable[[Event], dict[str, Any] | None]:
    """Return the reader of pairs with *between* two of them, and *sign* between key and value.

    What has no sign is left out of the fields; a line without any is of another form.
    """
    end = r"\s" if between.isspace() else re.escape(between)
    # an escaped quote opens nothing: else each of many would be followed to the end of the line
    pairs = re.compile(rf"(?:{_QUOTED}|\\.|(?!{end}).)++", re.DOTALL)

    def read_pairs(event: Event) -> dict[str, Any] | None:
        fields: dict[str, Any] = {}
        for part in pairs.findall(event.message):
            key, found, value = part.partition(sign)
            key, value = key.strip(), value.strip()
            if found and key:
                quoted = len(value) > 1 and value[0] == value[-1] == '"'
                fields[key] = _unquoted(value) if quoted else value
        return fields or None

    return read_pairs


def _unquoted(value: str) -> str:
    """Return what stands in the quotes of *value*."""
    if "\\" not in value:
        return value[1:-1]
    try:
        return str(orjson.loads(value))
    except orjson.JSONDecodeError:
        return value[1:-1].replace('\\"', '"')
