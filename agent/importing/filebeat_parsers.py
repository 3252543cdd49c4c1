"""Reads how an input of a filebeat.yml reads lines: parsers, JSON, and lines that are one event."""

from collections.abc import Mapping
from typing import Any, Final

from agent.config.lines import MultilineTable
from agent.config.processors import MESSAGE
from agent.importing.imported import Imported
from agent.importing.settings import Settings, as_list, duration_seconds, flatten_keys, nest_keys
from agent.patterns import check_pattern
from logdrive.config.check import find_mistakes

_NO_OPTIONS: Final = "is left out: options stand below the name of a parser, indented"
_MAX_LINES: Final = "lines beyond are another event, and sent; Filebeat leaves them out"
_FLUSH: Final = (
    "is `end`: lines between an end and the next start are an event each, and a start line with it "
    "is an event of its own; in Filebeat those lines join one another, and that one goes on"
)
_ORDER: Final = ("container", "multiline", "syslog", "ndjson")
"""Filestream's parsers, in the order in which the agent does the same."""
JOINED_BEFORE: Final = (
    "is left out, so each line is an event: Filebeat matches its pattern with what `{}` has read, "
    "and the agent with the line as it is in the file"
)
_NOT_AFTER: Final = "is left out: the agent can't do it after `{}`"
_JOINED_ALONE: Final = (
    "; `continue` (with negate: `start`) is closest, and joins such lines to the one before, too"
)
_OTHER_TYPES: Final = {"while_pattern": _JOINED_ALONE, "while-pattern": _JOINED_ALONE}
"""What to write instead of a type of multiline; the second is its name in early versions."""


def take_parsers(settings: Settings, ours: dict[str, Any], imported: Imported) -> str:
    """Take filestream's `parsers`, as far as they are in the order that the agent has.

    Return the field whose text they make the message, in Filebeat; "" for one that we don't have.
    """
    taken: list[str] = []
    text = MESSAGE
    for number, parser in enumerate(as_list(settings.take("parsers"))):
        # `multiline.pattern: x` is `multiline: {pattern: x}`, here, too
        nested = nest_keys(dict(flatten_keys(parser))) if isinstance(parser, Mapping) else {}
        for name, options in nested.items():
            where = f"{settings.key('parsers')}[{number}].{name}"
            if options is not None and not isinstance(options, Mapping):
                imported.add_remark(where, _NO_OPTIONS)
                continue
            if name not in _ORDER:
                imported.add_remark(where, "has no counterpart")
                continue
            if later := [each for each in taken if _ORDER.index(each) >= _ORDER.index(name)]:
                is_alone = name == "multiline" and name not in taken
                why = JOINED_BEFORE if is_alone else _NOT_AFTER
                imported.add_remark(where, why.format(later[0]))
                continue
            taken.append(name)
            flat = dict(flatten_keys(options or {}))
            if name == "container":
                take_container(flat.get("format"), flat.get("stream"), ours)
            elif name == "syslog":
                if _take_form({"type": "syslog"}, where, ours, imported):
                    text = "content"
            elif name == "multiline":
                take_multiline(flat or {"": None}, where, ours, imported)
            else:
                # its fields stand at the top unless it names a target
                flat["target"] = flat.get("target") or ""
                read = take_json(flat, where, ours, imported)
                text = text if read is None else read
    return text


def take_container(runtime: Any, stream: Any, ours: dict[str, Any]) -> None:
    """Read lines of a container *runtime*, and send those of one *stream* alone, if it is named."""
    ours["format"] = str(runtime or "auto")
    if stream not in (None, "all"):
        keep = {"pattern": f"^{stream}$", "field": "stream"}
        ours.setdefault("processor", []).append({"include": keep})


def _take_form(table: dict[str, Any], where: str, ours: dict[str, Any], imported: Imported) -> bool:
    """Set the [input.format] *table*, or make it that of the content of the lines' own form.

    Return whether it could be set; if not, add a remark.
    """
    form = ours.get("format")
    if isinstance(form, dict):
        imported.add_remark(
            where, f"is left out: {form['content']} is read of {form['type']} alone"
        )
        return False
    if form is not None:
        table |= {"type": form, "content": table["type"]}
    ours["format"] = table if len(table) > 1 else table["type"]
    return True


def take_json(
    flat: dict[str, Any], where: str, ours: dict[str, Any], imported: Imported
) -> str | None:
    """Take the options of JSON lines: by default Filebeat has them under `json`.

    Return the field whose text is the message then, in Filebeat; "" for one that we don't have,
    None where no JSON is read.
    """
    if not flat:
        return None
    target = flat.pop("target", None)
    at_top = flat.pop("keys_under_root", None) is True or target == ""
    bad_lines = "mark" if flat.pop("add_error_key", False) is True else "keep"
    table: dict[str, Any] = {"type": "json", "bad_lines": bad_lines}
    if not _take_form(table, where, ours, imported):
        return None
    if not at_top and "content" in table:
        why = (
            f"fields stand at the top, beside those of the line, and not below `{target or 'json'}`"
        )
        imported.add_remark(where, why)
    elif not at_top:
        table |= {"fields": "under", "key": str(target or "json")}
    for name in flat:
        if name and name not in ("ignore_decoding_error", "overwrite_keys", "expand_keys"):
            imported.add_remark(f"{where}.{name}", "has no counterpart: the line itself stays, too")
    field = str(flat.get("message_key") or "")
    if field and "key" in table:
        return f"{table['key']}.{field}"
    return "" if field == MESSAGE else field  # by this name there is the line


def take_multiline(
    flat: dict[str, Any], where: str, ours: dict[str, Any], imported: Imported
) -> None:
    """Take the options *flat* of multiline."""
    if not flat:
        return
    kind = str(flat.pop("type", "pattern") or "pattern")
    if kind != "pattern":
        imported.add_remark(
            where, f"of the type {kind} has no counterpart: left out{_OTHER_TYPES.get(kind, '')}"
        )
        return
    pattern = flat.pop("pattern", None)
    if pattern is None:
        imported.add_remark(where, "has no pattern: left out")
        return
    negate = flat.pop("negate", False) is True
    before = flat.pop("match", "after") == "before"
    key = ("end" if negate else "goes_on") if before else ("start" if negate else "continue")
    if not is_usable(str(pattern), f"{where}.pattern", imported):
        return
    table: dict[str, Any] = {key: str(pattern)}
    _take_limits(flat, where, table, imported)
    flush = flat.pop("flush_pattern", None)
    if flush and key != "start":
        imported.add_remark(f"{where}.flush_pattern", "is known beside a start pattern only")
    elif flush and is_usable(str(flush), f"{where}.flush_pattern", imported):
        table["end"] = str(flush)
        imported.add_remark(f"{where}.flush_pattern", _FLUSH)
    ours["multiline"] = table
    for name in flat:
        imported.add_remark(f"{where}.{name}", "has no counterpart")


def _take_limits(
    flat: dict[str, Any], where: str, table: dict[str, Any], imported: Imported
) -> None:
    """Add to the [input.multiline] *table* how long an event may become."""
    timeout = flat.pop("timeout", None)
    seconds = duration_seconds(timeout)
    limits = (
        ("max_lines", "max_lines", flat.pop("max_lines", None)),
        ("timeout", "max_seconds", timeout if seconds is None else seconds),
    )
    for theirs, name, value in limits:
        if value is None:
            continue
        mistakes = find_mistakes({"start": "x", name: value}, MultilineTable)
        for mistake in mistakes:
            why = f"is left out; as {name} {mistake.remedy}"
            imported.add_remark(f"{where}.{theirs}: {value}", why)
        if not mistakes:
            table[name] = value
    if "max_lines" in table:
        imported.add_remark(f"{where}.max_lines", _MAX_LINES)


def is_usable(pattern: str, where: str, imported: Imported) -> bool:
    """Return whether the agent takes *pattern*; if not, add a remark."""
    try:
        check_pattern(pattern)
    except ValueError as error:
        imported.add_remark(f"{where}: {pattern}", f"is left out: {error}")
        return False
    return True
