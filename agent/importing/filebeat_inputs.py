"""Reads one input of a filebeat.yml."""

from collections.abc import Mapping
from typing import Any, Final

from agent.config.encodings import canonical_encoding
from agent.config.lines import LONGEST_EVENT_BYTES
from agent.config.processors import MESSAGE
from agent.importing.filebeat_fields import take_fields
from agent.importing.filebeat_parsers import (
    JOINED_BEFORE,
    is_usable,
    take_container,
    take_json,
    take_multiline,
    take_parsers,
)
from agent.importing.filebeat_processors import import_processors
from agent.importing.imported import Imported
from agent.importing.path_patterns import path_patterns
from agent.importing.settings import (
    Settings,
    as_list,
    duration_seconds,
    size_bytes,
)

_FILES: Final = ("log", "filestream", "container", "docker")
_OTHERS: Final = {
    "journald": "write [journald]",
    "syslog": "write [[syslog]]",
    "tcp": "write [[syslog]], which takes lines of any form",
    "udp": "write [[syslog]], which takes datagrams of any form",
    "unix": "write [[socket]]",
}
"""Types of inputs that have a counterpart, which is not made of their settings."""
_ENCODINGS: Final = {"plain": "utf-8", "utf-16be-bom": "utf-16", "utf-16le-bom": "utf-16"}
_LINE_ENDS: Final = {
    "null_terminator": "\0",
    "vertical_tab": "\v",
    "form_feed": "\f",
    "record_separator": "\x1e",
}
_AUTOMATIC: Final = (
    "id",
    "close",
    "clean",
    "harvester_",
    "scan_frequency",
    "backoff",
    "max_backoff",
    "buffer_size",
    "file_identity",
    "prospector",
    "recursive_glob",
    "symlinks",
    "combine_partial",
    "combine_partials",
    "take_over",
    "delete",
    "rotation",
    "compression",
    "gzip_experimental",
    "scan",
)
"""Settings that the agent does not need: it finds, follows and names files by itself."""
_NO_FIELD: Final = (
    "is left out: Filebeat searches the text of message_key alone, and the agent the whole line"
)
_IN_FIELD: Final = (
    "is searched in `{}`, as there; a line without this field does not match, where Filebeat "
    "searches the line itself"
)
_COMPRESSED: Final = ("gz", "bz2", "xz", "zst", "zip")


def import_input(
    table: Mapping[str, Any], where: str, imported: Imported, *, to_logstash: bool
) -> None:
    """Add the [[input]] of an input of Filebeat, named *where* in remarks.

    *to_logstash*: events go to Logstash, and not to a receiver of logdrive.
    """
    settings = Settings(table, where)
    kind = str(settings.take("type", "input_type") or "log")
    if settings.take("enabled") is False:
        imported.add_remark(where, "is not enabled, and left out")
        return
    if kind == "stdin":
        imported.document["stdin"] = {}
        for key, _ in settings.left():
            imported.add_remark(key, "is left out: write it below [stdin], as below an [[input]]")
        return
    if kind not in _FILES:
        counterpart = _OTHERS.get(kind, "has no counterpart, and is left out")
        imported.add_remark(where, f"of the type {kind}: {counterpart}")
        return

    ours: dict[str, Any] = {"paths": _paths(settings, kind, imported)}
    _take_excluded(settings, ours, imported)
    _say_included(settings, imported)
    if not ours["paths"]:
        imported.add_remark(where, "has no path, and is left out")
        return
    text = take_parsers(settings, ours, imported)
    _take_lines(settings, ours, imported)
    if kind in ("container", "docker"):
        stream = settings.take("stream", "containers.stream")
        take_container(settings.take("format"), stream, ours)
    json, multiline = settings.take_table("json"), settings.take_table("multiline")
    if json and multiline:
        imported.add_remark(settings.key("multiline"), JOINED_BEFORE.format("json"))
    else:
        take_multiline(multiline, settings.key("multiline"), ours, imported)
    read = take_json(json, settings.key("json"), ours, imported)
    _take_filters(text if read is None else read, settings, ours, imported)
    if tags := as_list(settings.take("tags")):
        ours["tags"] = [str(tag) for tag in tags]
    import_processors(
        as_list(settings.take("processors")), settings.key("processors"), [ours], imported
    )
    take_fields(settings, [ours], imported, to_logstash=to_logstash)
    _say_what_is_left(settings, imported)
    imported.add_input(ours, where)


def _paths(settings: Settings, kind: str, imported: Imported) -> list[str]:
    paths = [str(path) for path in as_list(settings.take("paths"))]
    if kind == "docker":
        ids = as_list(settings.take("containers.ids")) or ["*"]
        root = settings.take("containers.path") or "/var/lib/docker/containers"
        paths += [f"{root}/{each}/*-json.log" for each in ids]
    for path in paths:
        if not path.startswith("/"):
            imported.add_remark(f"{settings.key('paths')}: {path}", "is not absolute: left out")
    return [path for path in paths if path.startswith("/")]


def _take_excluded(settings: Settings, ours: dict[str, Any], imported: Imported) -> None:
    name, patterns = settings.take_named("exclude_files", "prospector.scanner.exclude_files")
    for pattern in as_list(patterns):
        key = f"{name}: {pattern}"
        if any(str(pattern).strip("$'\"").endswith(f".{end}") for end in _COMPRESSED):
            why = "is not needed: a compressed rotation is known as the file that it was"
            imported.add_remark(key, why)
        elif made := path_patterns(str(pattern)):
            ours.setdefault("exclude", []).extend(made)
        else:
            why = "is a pattern of text: write `exclude` with patterns of paths"
            imported.add_remark(key, why)


def _say_included(settings: Settings, imported: Imported) -> None:
    """Say that patterns of text do not narrow `paths`: without them more files would be sent."""
    name, patterns = settings.take_named("prospector.scanner.include_files")
    for pattern in as_list(patterns):
        imported.add_remark(
            f"{name}: {pattern}",
            "is a pattern of text, and left out: write `paths` that match these files alone",
        )


def _take_line_end(name: str, settings: Settings, ours: dict[str, Any], imported: Imported) -> None:
    if name in _LINE_ENDS:
        ours["line_end"] = _LINE_ENDS[name]
    elif name not in ("auto", "line_feed", "carriage_return_line_feed"):
        why = "is left out: write the characters themselves as `line_end`"
        imported.add_remark(f"{settings.key('line_terminator')}: {name}", why)


def _take_lines(settings: Settings, ours: dict[str, Any], imported: Imported) -> None:
    if encoding := settings.take("encoding"):
        name = _ENCODINGS.get(str(encoding), str(encoding))
        try:
            canonical_encoding(name)
        except ValueError as error:
            imported.add_remark(f"{settings.key('encoding')}: {encoding}", f"is left out: {error}")
        else:
            ours["encoding"] = name
    if line_end := settings.take("line_terminator"):
        _take_line_end(str(line_end), settings, ours, imported)
    longest_name, longest = settings.take_named("message_max_bytes", "max_bytes")
    if longest:
        size = size_bytes(longest)
        if size is not None and size <= LONGEST_EVENT_BYTES:
            ours["longest_event_bytes"] = size
        else:
            imported.add_remark(longest_name, "is not needed: nothing is cut off a long line")
    if settings.take("tail_files") is True:
        ours["start"] = "end"
    if inactive := settings.take("ignore_inactive"):
        ours["start"] = "end"
        imported.add_remark(
            f"{settings.key('ignore_inactive')}: {inactive}",
            'is start = "end": of files that the first start finds, only what is added is sent',
        )
    if older := settings.take("ignore_older"):
        seconds = duration_seconds(older)
        if seconds is None:
            imported.add_remark(
                f"{settings.key('ignore_older')}: {older}", "is no duration: left out"
            )
        if seconds and "start" not in ours:
            ours["start"] = _age(seconds)
            imported.add_remark(
                settings.key("ignore_older"),
                "is `start`: of older files only what is added after the first start is sent",
            )


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def _take_filters(field: str, settings: Settings, ours: dict[str, Any], imported: Imported) -> None:
    """Take include_lines and exclude_lines, in the order in which Filebeat applies them.

    *field* is what Filebeat searches; "" for one that we don't have.
    """
    for theirs, key in (("include_lines", "include"), ("exclude_lines", "exclude")):
        patterns = as_list(settings.take(theirs))
        if patterns and not field:
            imported.add_remark(settings.key(theirs), _NO_FIELD)
        elif patterns:
            one = "|".join(f"(?:{pattern})" for pattern in patterns)
            match = {"pattern": str(patterns[0]) if len(patterns) == 1 else one}
            if not is_usable(match["pattern"], settings.key(theirs), imported):
                continue
            if field != MESSAGE:
                match["field"] = field
                imported.add_remark(settings.key(theirs), _IN_FIELD.format(field))
            ours.setdefault("processor", []).append({key: match})


def _say_what_is_left(settings: Settings, imported: Imported) -> None:
    automatic = []
    for key, _ in settings.left():
        name = key.removeprefix(f"{settings.where}.")
        if name.startswith(_AUTOMATIC):
            automatic.append(name)
        else:
            imported.add_remark(key, "has no counterpart")
    if automatic:
        imported.add_remark(
            settings.where,
            f"needs no {', '.join(automatic)}: files are found, followed and told apart without",
        )
