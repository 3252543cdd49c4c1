"""Reads processors of a filebeat.yml: those that drop events by a pattern, and those of fields."""

import re
from collections.abc import Mapping
from typing import Any, Final

from agent.config.processors import MESSAGE, ProcessorTable
from agent.importing.filebeat_fields import may_stand_at_top
from agent.importing.imported import Imported
from agent.importing.settings import as_list, flatten_keys, lacks_value, nest_keys
from logdrive.config.check import find_mistakes

_METADATA: Final = {
    "add_docker_metadata": "container",
    "add_kubernetes_metadata": "kubernetes",
}
_HOST: Final = "host and agent are part of what all events say"
_OF_FIELDS: Final = ("drop", "rename", "add")
"""Actions whose fields can be taken over one by one."""
_LOOKED_FOR: Final = "acts on what a line says by that name; what each event says itself stays"
_MADE: Final = "stands below `fields`, as each event has a key of that name"
_CONDITIONS: Final = ("if", "then", "else")
_CONDITIONAL: Final = "is left out: no processor but include and exclude has a condition"
_WRITE: Final = "is left out: write [[input.processor]] with `{}`"
_INSTEAD: Final = {
    "add_fields": _WRITE.format("add"),
    "add_labels": _WRITE.format("add") + ', as in add = { "labels.team" = "shop" }',
    "add_tags": "is left out: write `tags` below [[input]]",
    "copy_fields": "has no counterpart: `rename` gives a field another name",
    "decode_csv_fields": 'has no counterpart: format = "csv" reads lines that are CSV',
    "decode_json_fields": 'has no counterpart: format = "json" reads lines that are JSON',
    "dissect": "has no counterpart: `format` reads lines of the forms that it knows",
    "drop_event": _WRITE.format("exclude") + " or `include`: one pattern of one field each",
    "drop_fields": _WRITE.format("drop"),
    "include_fields": "has no counterpart: `drop` names fields to leave out",
    "move_fields": _WRITE.format("rename"),
    "rate_limit": _WRITE.format("rate_limit"),
    "rename": _WRITE.format("rename"),
    "replace": _WRITE.format("redact") + ", which replaces in the message and in all fields",
    "syslog": 'has no counterpart: format = "syslog" reads lines of syslog',
    "timestamp": "has no counterpart: the pipeline finds the time in the line",
    "truncate_fields": "has no counterpart: longest_event_bytes limits an event",
}
"""What to do instead of a processor that is not taken over; others have no counterpart."""


def import_processors(
    listed: list[Any], where: str, tables: list[dict[str, Any]], imported: Imported
) -> None:
    """Add to the inputs *tables* what the processors *listed* at *where* do; the rest are remarks.

    Metadata is added to inputs of containers alone: others are cheaper without any processor.
    """
    for number, processor in enumerate(listed):
        if not isinstance(processor, Mapping):
            imported.add_remark(f"{where}[{number}]: {processor}", "is no table: left out")
            continue
        nested = nest_keys(dict(flatten_keys(processor)))
        if conditional := [name for name in _CONDITIONS if name in nested]:
            imported.add_remark(f"{where}[{number}].{conditional[0]}", _CONDITIONAL)
            continue
        for name, options in nested.items():
            key = f"{where}[{number}].{name}"
            _import_processor(
                str(name), options if isinstance(options, Mapping) else {}, key, tables, imported
            )


def _import_processor(
    name: str,
    options: Mapping[str, Any],
    key: str,
    tables: list[dict[str, Any]],
    imported: Imported,
) -> None:
    kind = _METADATA.get(name)
    if kind is not None:
        imported.add_remark(key, f'is metadata = ["{kind}"], for files of containers alone')
        tables = [table for table in tables if "format" in table]
    elif name == "add_host_metadata":
        imported.add_remark(key, _HOST)
        return
    elif "when" in options and name != "drop_event":
        imported.add_remark(key, _CONDITIONAL)
        return
    elif name == "add_tags" and options.get("target", "tags") == "tags":
        for table in tables:
            table["tags"] = [*table.get("tags", []), *map(str, as_list(options.get("tags")))]
        return

    made = _processor(name, options)
    if made is None:
        imported.add_remark(key, _INSTEAD.get(name, "has no counterpart"))
        return
    made = _without_mistakes(made, key, imported)
    for table in tables if made else ():
        table.setdefault("processor", []).append(made)


def _without_mistakes(made: dict[str, Any], key: str, imported: Imported) -> dict[str, Any] | None:
    """Return of the processor *made* what the agent takes, if anything; the rest are remarks."""
    ((action, value),) = made.items()
    names = list(value) if action in _OF_FIELDS else [""]
    good = []
    for name in names:
        part = [name] if action == "drop" else {name: value[name]} if name else value
        reasons = [mistake.remedy for mistake in find_mistakes({action: part}, ProcessorTable)]
        if lacks_value(part):
            reasons = ["it has no value"]
        if action in ("include", "exclude") and _is_of_events(value["field"]):
            reasons = [f"{value['field']} is said of each event, and no field of a line"]
        for reason in reasons:
            imported.add_remark(f"{key}: {name}" if name else key, f"is left out: {reason}")
        if not reasons:
            good.append(name)
    if action == "drop":
        value = good
    elif action in _OF_FIELDS:
        value = {name: value[name] for name in good}
    _say_own_keys(action, value, key, imported)
    return {action: value} if good else None


def _say_own_keys(action: str, value: Any, key: str, imported: Imported) -> None:
    """Say what becomes of fields whose names are those of keys that each event has."""
    looked_for = value if action in ("drop", "rename") else ()
    made = value if action == "add" else value.values() if action == "rename" else ()
    if own := [name for name in looked_for if _is_of_events(name)]:
        imported.add_remark(f"{key}: {', '.join(own)}", _LOOKED_FOR)
    if own := [name for name in made if _is_of_events(name) and not name.startswith("fields.")]:
        imported.add_remark(f"{key}: {', '.join(own)}", _MADE)


def _processor(name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the [[input.processor]] that means the same; None if there is none."""
    if kind := _METADATA.get(name):
        return {"metadata": [kind]}
    match name:
        case "drop_event":
            return _drop_event(options.get("when"))
        case "drop_fields":
            dropped = [str(field) for field in as_list(options.get("fields"))]
            return {"drop": dropped} if dropped else None
        case "rename":
            names = {
                str(pair["from"]): str(pair["to"])
                for pair in as_list(options.get("fields"))
                if isinstance(pair, Mapping) and {"from", "to"} <= {*pair}
            }
            return {"rename": names} if names else None
        case "add_labels":
            labels = options.get("labels")
            # Filebeat keeps the dots of a label's name, and so makes no tables
            if not isinstance(labels, Mapping) or any(map(_is_nested, labels.values())):
                return None
            return {"add": {f"labels.{name}": value for name, value in labels.items()}}
        case "add_fields":
            target = str(options.get("target", "fields"))
            prefix = f"{target}." if target else ""
            fields = options.get("fields")
            if not isinstance(fields, Mapping):
                return None
            return {"add": {prefix + field: value for field, value in flatten_keys(fields)}}
    return None


def _drop_event(condition: Any) -> dict[str, Any] | None:
    """Return `exclude`, or `include` for `not`, of a condition with one pattern of one field."""
    key = "exclude"
    if isinstance(condition, Mapping) and list(condition) == ["not"]:
        key, condition = "include", condition["not"]
    if not isinstance(condition, Mapping) or len(condition) != 1:
        return None
    ((kind, fields),) = condition.items()
    flat = dict(flatten_keys(fields)) if isinstance(fields, Mapping) else {}
    if kind not in ("regexp", "contains", "equals") or len(flat) != 1:
        return None
    ((field, value),) = flat.items()
    if not isinstance(value, str):
        return None
    text = {"regexp": value, "contains": re.escape(value), "equals": f"^{re.escape(value)}$"}[kind]
    return {key: {"pattern": text, "field": field}}


def _is_of_events(field: str) -> bool:
    """Return whether *field* is a key that all events have, and that no processor sees."""
    return field != MESSAGE and not may_stand_at_top(field)


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping | list)
