"""Reads processors of a filebeat.yml: those that drop events by a pattern, and those of fields."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agent.config.processors import ProcessorTable
from agent.importing.imported import Imported
from agent.importing.settings import as_list, flatten_keys, nest_keys

_METADATA: Final = {
    "add_docker_metadata": "container",
    "add_kubernetes_metadata": "kubernetes",
}
_HOST: Final = "host and agent are part of what all events say"
_NOT_CARRIED: Final = "write [[input.processor]] for it; docs/agent.md has a table of both"


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
        for name, options in nested.items():
            key = f"{where}[{number}].{name}"
            try:
                made = _processor(str(name), options if isinstance(options, Mapping) else {})
                if made is not None:
                    msgspec.convert(made, ProcessorTable)
            except (ValueError, msgspec.ValidationError) as error:
                imported.add_remark(key, f"is left out: {error}")
                continue
            kind = _METADATA.get(str(name))
            if name == "add_host_metadata":
                imported.add_remark(key, _HOST)
            elif kind is not None:
                imported.add_remark(key, f'is metadata = ["{kind}"], for files of containers alone')
            elif made is None:
                imported.add_remark(key, _NOT_CARRIED)
            for table in tables:
                if made is not None and (kind is None or "format" in table):
                    table.setdefault("processor", []).append(made)


def _processor(name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the [[input.processor]] that means the same; None if there is none."""
    if kind := _METADATA.get(name):
        return {"metadata": [kind]}
    if "when" in options and name != "drop_event":
        return None
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
