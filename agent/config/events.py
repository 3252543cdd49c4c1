"""What every input's table has: how its bytes become events, and the labels of these."""

from typing import Any, Literal

import msgspec
import orjson

from agent.config.formats import FormatName, FormatTable, format_table
from agent.config.lines import LinesTable
from agent.config.processors import ProcessorTable, check_order
from logdrive.model.limits import ATTRIBUTES_BYTES, ATTRIBUTES_DEPTH
from logdrive.model.units import KIB

_LABEL_BYTES = ATTRIBUTES_BYTES - 8 * KIB
"""Limit on the JSON of an input's fields and tags.

It leaves room among the attributes for the path (4 KiB at most) and names.
"""


class EventsTable(LinesTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of each table of an input, wherever its bytes come from."""

    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    """Values by name, which go with each line."""

    tags: list[str] = msgspec.field(default_factory=list)
    """Words, which go with each line."""

    format: FormatName | FormatTable | None = None
    """The form of its lines, whose fields are read. Without it lines are sent as they are."""

    processor: list[ProcessorTable] = msgspec.field(default_factory=list)
    """What is done with each of its events, in this order."""

    @property
    def needs_events(self) -> bool:
        """Whether events are made of its bytes; if not, they are shipped without a look at them."""
        return bool(self.processor) or self.format is not None or not self.has_plain_lines

    @property
    def container(self) -> Literal["cri", "docker", "auto"] | None:
        """Which container runtime writes the files; "auto": their first bytes say it."""
        table = format_table(self.format)
        if table is None or table.type not in ("cri", "docker", "auto"):
            return None
        return table.type

    def __post_init__(self) -> None:
        """Refuse labels that are no JSON or exceed the attributes, and processors out of order."""
        super().__post_init__()
        check_order(self.processor)
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
