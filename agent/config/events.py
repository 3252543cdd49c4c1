"""What every input's table has: the labels of its events."""

from typing import Any

import msgspec
import orjson

from logdrive.model.limits import ATTRIBUTES_BYTES, ATTRIBUTES_DEPTH
from logdrive.model.units import KIB

_LABEL_BYTES = ATTRIBUTES_BYTES - 8 * KIB
"""Limit on the JSON of an input's fields and tags.

It leaves room among the attributes for the path (4 KiB at most) and names.
"""


class EventsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of each table of an input, wherever its bytes come from."""

    fields: dict[str, Any] = {}
    """Values by name, which go with each line."""

    tags: list[str] = []
    """Words, which go with each line."""

    def __post_init__(self) -> None:
        """Refuse labels that are no JSON or exceed the attributes."""
        try:
            labels = orjson.dumps([self.fields, self.tags])
        except TypeError as error:
            raise ValueError(f"fields and tags must be values that JSON has: {error}") from error
        if len(labels) > _LABEL_BYTES:
            raise ValueError(
                f"fields and tags together must stay below {_LABEL_BYTES} bytes of JSON"
            )
        if _nesting_depth(self.fields) >= ATTRIBUTES_DEPTH:
            raise ValueError(
                f"fields must have fewer than {ATTRIBUTES_DEPTH} levels of tables and lists"
            )


def _nesting_depth(value: object) -> int:
    """Return the levels of tables and lists in *value*, itself included."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(
        map(_nesting_depth, value.values() if isinstance(value, dict) else value), default=0
    )
