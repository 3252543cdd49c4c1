"""Reads `fields` of a filebeat.yml, which stand below `fields` of an event, or at its top."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agent.config.processors import ProcessorTable
from agent.events.record_parts import OWN_EVENT_KEYS, OWN_KEYS, OWN_LOG_KEYS
from agent.importing.imported import Imported
from agent.importing.settings import Settings, flatten_keys, lacks_value, nest_keys

_OWN_MEMBERS: Final = {"log": OWN_LOG_KEYS, "event": OWN_EVENT_KEYS}
_AS_ADD: Final = (
    "is a processor that adds the fields, so that Logstash has them at the top of an event, too; "
    "with a receiver of logdrive write `fields` instead, for which no line is looked at"
)
_LEFT_OUT: Final = (
    "is left out: `fields` go to a receiver of logdrive once a source, and stay below `fields`; "
    'for Logstash write [[input.processor]] with `add`, and dialect = "lumberjack/2"'
)


def take_fields(
    settings: Settings, tables: list[dict[str, Any]], imported: Imported, *, to_logstash: bool
) -> None:
    """Add the `fields` of *settings* to the inputs *tables*, whose own go before.

    Fields at the top of events, with `fields_under_root`, are a processor where events go
    *to_logstash*, which tells the two apart.
    """
    fields = settings.take_table("fields")
    is_under_root = settings.take("fields_under_root") is True
    for name in [name for name, value in fields.items() if lacks_value(value)]:
        imported.add_remark(settings.key(f"fields.{name}"), "is left out: it has no value")
        del fields[name]
    if not fields:
        return
    key = settings.key("fields_under_root")
    if is_under_root and to_logstash:
        fields = _add_at_top(fields, key, tables, imported)
    elif is_under_root:
        imported.add_remark(key, _LEFT_OUT)
    for table in tables if fields else ():
        table["fields"] = nest_keys(fields | dict(flatten_keys(table.get("fields", {}))))


def _add_at_top(
    fields: Mapping[str, Any], key: str, tables: list[dict[str, Any]], imported: Imported
) -> dict[str, Any]:
    """Add the processor that sets *fields*; return those that it can't set."""
    at_top = {name: value for name, value in fields.items() if may_stand_at_top(name)}
    below = {name: value for name, value in fields.items() if name not in at_top}
    if at_top:
        processor = {"add": at_top}
        try:
            msgspec.convert(processor, ProcessorTable)
        except msgspec.ValidationError as error:
            imported.add_remark(key, f"is left out: {error}")
            return dict(fields)
        for table in tables:
            # first: Filebeat's processors find the fields there
            table.setdefault("processor", []).insert(0, processor)
        imported.add_remark(key, _AS_ADD)
    for name in below:
        there = "".join(f"[{part}]" for part in name.split("."))
        imported.add_remark(
            f"{key}: {name}",
            "stays below `fields`, as each event has a key of that name; in Logstash: "
            f'mutate {{ rename => {{ "[fields]{there}" => "{there}" }} }}',
        )
    return below


def may_stand_at_top(name: str) -> bool:
    """Return whether an event's field *name* stands at the top of its record (rule R1)."""
    first, _, rest = name.partition(".")
    if rest and first in _OWN_MEMBERS:
        return rest.partition(".")[0] not in _OWN_MEMBERS[first]
    return first not in OWN_KEYS
