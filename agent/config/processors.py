"""The [[input.processor]] tables: what is done with each event of an input, in their order."""

from typing import Annotated, Any, Literal

import msgspec
import orjson

from agent.patterns import check_pattern
from logdrive.config.bounds import Count, Positive, checked
from logdrive.model.limits import ATTRIBUTES_DEPTH
from logdrive.model.units import KIB

RedactPreset = Literal["card", "token", "email"]
"""What `redact` knows by itself: payment cards, secrets of programs, e-mail addresses."""

MetadataKind = Literal["host", "container", "kubernetes"]
"""What `metadata` adds: of this machine, and of the container and the pod that a path names."""

_ADDED_BYTES = 16 * KIB
"""Limit on the JSON of the fields that one processor adds."""
_FIELD_BYTES = 256
"""Limit on the name of a field."""

FieldName = Annotated[str, msgspec.Meta(min_length=1, max_length=_FIELD_BYTES)]
"""The name of a field; a dot leads into a nested one."""

MESSAGE = "message"
"""The name of the text of an event, which is no field."""


class MatchTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which events `include` keeps and `exclude` drops."""

    pattern: Annotated[str, checked(check_pattern)]
    """What is searched for."""

    field: FieldName = MESSAGE
    """Where: the message or a field. An event without this field does not match."""

    def __post_init__(self) -> None:
        """Refuse a pattern that can't be used."""
        check_pattern(self.pattern)


class RedactTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `redact` replaces, in messages and in all fields."""

    presets: list[RedactPreset] = []
    """Rules that are known by name."""

    pattern: Annotated[str, checked(check_pattern)] | None = None
    """A rule of one's own. With groups only these are replaced, else all that matches."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_-]{1,32}$")] = "pattern"
    """The name of that rule, in counters."""

    replacement: str | None = None
    """The text instead. Default: [redacted NAME], of the rule or preset."""

    def __post_init__(self) -> None:
        """Refuse a table without a rule, and a pattern that can't be used."""
        if not self.presets and self.pattern is None:
            raise ValueError("has neither presets nor a pattern: write one of them, or both")
        if self.pattern is not None:
            check_pattern(self.pattern)
        elif self.name != "pattern":
            raise ValueError("name: it names a pattern, and there is none")
        if len(set(self.presets)) < len(self.presets):
            raise ValueError("presets: each can be there only once")
        if self.replacement is not None and len(self.replacement) > _FIELD_BYTES:
            raise ValueError(f"replacement: it has more than {_FIELD_BYTES} characters")


class RateLimitTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many events, or bytes, of one source pass in a second."""

    events_per_second: Positive | None = None
    """Events a second, in the long run."""

    bytes_per_second: Positive | None = None
    """Bytes of the file a second, in the long run."""

    burst: Count | None = None
    """Events, or bytes, that may pass at once. Default: those of ten seconds."""

    when_over: Literal["drop", "wait"] = "drop"
    """Whether what is over is dropped, or waits in the file and is sent later."""

    def __post_init__(self) -> None:
        """Refuse a table with no rate, or with two."""
        if (self.events_per_second is None) == (self.bytes_per_second is None):
            raise ValueError("must have either events_per_second or bytes_per_second")


class ProcessorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[input.processor]] table. It has one key: what is done."""

    include: MatchTable | None = None
    """Keep only events that match."""

    exclude: MatchTable | None = None
    """Drop events that match."""

    redact: RedactTable | None = None
    """Replace secrets."""

    rename: dict[FieldName, FieldName] | None = None
    """New names of fields, by their names until now."""

    drop: list[FieldName] | None = None
    """Fields to leave out."""

    add: dict[FieldName, Any] | None = None
    """Fields to set, with their values."""

    metadata: Annotated[list[MetadataKind], msgspec.Meta(min_length=1)] | None = None
    """Add what is known of where the lines come from."""

    rate_limit: RateLimitTable | None = None
    """Let no more than a rate pass."""

    @property
    def action(self) -> str:
        """The name of its one key."""
        return next(name for name in ACTIONS if getattr(self, name) is not None)

    def __post_init__(self) -> None:
        """Refuse none or several actions, and those that change what an event is."""
        actions = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(actions) != 1:
            has = f", and has {', '.join(actions)}" if actions else ""
            raise ValueError(f"must have exactly one of {', '.join(ACTIONS)}{has}")
        for key in ("rename", "drop", "add"):
            self._check_names(key, getattr(self, key))
        if self.add is not None:
            _check_added(self.add)

    def _check_names(self, key: str, value: "dict[str, Any] | list[str] | None") -> None:
        if value is None:
            return
        if not value:
            raise ValueError(f"{key}: it names no field")
        names = [*value, *(value.values() if key == "rename" and isinstance(value, dict) else ())]
        if MESSAGE in names:
            raise ValueError(f"{key}: {MESSAGE} is the line's text and no field: it stays")
        for name in names:
            if not all(name.split(".")):
                raise ValueError(f"{key}: {name!r} has an empty part beside a dot")


ACTIONS = ProcessorTable.__struct_fields__
"""What a processor may do: the keys of its table."""


def check_order(processors: list[ProcessorTable]) -> None:
    """Raise ValueError where a rate that holds events back does not come last.

    Events that wait are read again, so nothing before may have let others pass for them.
    """
    for index, table in enumerate(processors[:-1]):
        if table.rate_limit is not None and table.rate_limit.when_over == "wait":
            raise ValueError(
                f'processor: in processor[{index}], a rate_limit with when_over = "wait" must be '
                "the last processor"
            )


def _check_added(fields: dict[str, Any]) -> None:
    try:
        size = len(orjson.dumps(fields))
    except TypeError as error:
        raise ValueError(f"add: values must be those that JSON has: {error}") from error
    if size > _ADDED_BYTES:
        raise ValueError(f"add: it has more than {_ADDED_BYTES:,} bytes of JSON")
    if _depth(fields) >= ATTRIBUTES_DEPTH:
        raise ValueError(f"add: it has more than {ATTRIBUTES_DEPTH} levels of tables and lists")


def _depth(value: object) -> int:
    """Return the levels of tables and lists in *value*, itself included."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
