"""Fields by name, where a dot leads into a nested one: `log.level` is `level` in `log`.

A field whose own name has the dot goes first: formats make such of text like `user.name=alice`.
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from agent.config.processors import MESSAGE
from agent.events.event import Event

NO_FIELD: Final = object()
"""What stands for a field that an event does not have."""


def get_field(fields: dict[str, Any], name: str) -> Any:
    """Return the value of the field *name*, `NO_FIELD` without one."""
    for inside, key in _places(fields, name):
        if key in inside:
            return inside[key]
    return NO_FIELD


def take_field(fields: dict[str, Any], name: str) -> Any:
    """Remove the field *name* and return its value, `NO_FIELD` without one."""
    for inside, key in _places(fields, name):
        if key in inside:
            return inside.pop(key)
    return NO_FIELD


def set_field(fields: dict[str, Any], name: str, value: Any) -> None:
    """Set the field *name*, replacing one that exists, and what is in its way that is no table."""
    if name in fields:
        fields[name] = value
        return
    *path, key = name.split(".")
    for part in path:
        inside = fields.get(part)
        if not isinstance(inside, dict):
            inside = fields[part] = {}
        fields = inside
    fields[key] = value


def field_text(event: Event, name: str) -> str | None:
    """Return the message of *event*, or the text of its field *name*; None without the field.

    A value that is no text is its JSON.
    """
    if name == MESSAGE:
        return event.message
    value = get_field(event.fields, name)
    if value is NO_FIELD:
        return None
    return value if isinstance(value, str) else value_text(value)


def value_text(value: Any) -> str:
    """Return the JSON of *value*, which is no text."""
    return orjson.dumps(value).decode()


def _places(fields: dict[str, Any], name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each table, and key in it, that *name* may mean."""
    yield fields, name
    at = name.find(".")
    while at >= 0:
        inside = fields.get(name[:at])
        if isinstance(inside, dict):
            yield from _places(inside, name[at + 1 :])
        at = name.find(".", at + 1)
