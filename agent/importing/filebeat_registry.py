"""Reads Filebeat's registry: how far each file was acknowledged.

The registry is a directory: a checkpoint, `NUMBER.json`, whose name `active.dat` has, and what was
changed since, `log.json`: an operation and its entry in two lines, {"op":"set","id":7} and
{"k":"filebeat::logs::native::22-5","v":{…}}. Filebeat 5 and 6 had one file, a list of entries.
"""

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import orjson

from agent.inputs.files.taken_positions import TakenPosition
from logdrive.errors import ConfigError, Mistake

_NO_TIME = 1 << 62
"""More seconds than any time has: Go's zero time is a negative number, written without sign."""

_MEND = "start Filebeat once, which mends it, stop it, and try again"

_DIRECTORIES = ("", "filebeat", "registry/filebeat", "data/registry/filebeat")


def read_registry(path: str) -> list[TakenPosition]:
    """Return the positions in the registry at *path*: the directory of it, or of all data.

    Raises `ConfigError` if there is none, OSError if it can't be read.
    """
    entries = _old_entries(path) if os.path.isfile(path) else _entries_below(path)
    newest: dict[tuple[int, int, str, str], tuple[tuple[float, int], TakenPosition]] = {}
    for key, value in entries.items():
        try:
            one = _position(key, value)
        except (ValueError, TypeError, AttributeError) as error:
            remedy = f"its entry {key} is none that Filebeat writes: {_MEND}"
            raise ConfigError(path, [Mistake("--registry", "", remedy)]) from error
        if one is not None:
            rank = _changed_seconds(value), one.offset
            file = _file_of(one)
            if file not in newest or rank > newest[file][0]:
                newest[file] = rank, one
    return sorted((one for _, one in newest.values()), key=lambda one: one.path)


def _file_of(position: TakenPosition) -> tuple[int, int, str, str]:
    """Return what names the file: two inputs, or one under a former id, have an entry each."""
    by_path = "" if position.inode or position.fingerprint else position.path
    return position.inode, position.device, position.fingerprint, by_path


def _changed_seconds(value: dict[str, Any]) -> float:
    """Return when an entry was changed, in seconds since 1970; 0 where it is not said so."""
    changed = value.get("updated") or value.get("timestamp")
    match changed:
        case [int(nanoseconds), int(seconds)] if seconds < _NO_TIME:
            return seconds + nanoseconds / 1e9
        case str():
            try:
                return datetime.fromisoformat(changed).timestamp()
            except ValueError:
                return 0
    return 0


def _entries_below(path: str) -> dict[str, Any]:
    for below in _DIRECTORIES:
        directory = os.path.join(path, below)
        log = os.path.join(directory, "log.json")
        if os.path.exists(log) or os.path.exists(os.path.join(directory, "active.dat")):
            entries = _checkpoint(directory)
            _apply_log(log, entries)
            return entries
    remedy = (
        "no registry of Filebeat is there: give its directory with log.json and meta.json, "
        "such as /var/lib/filebeat/registry/filebeat"
    )
    raise ConfigError(path, [Mistake("--registry", "", remedy)])


def _checkpoint(directory: str) -> dict[str, Any]:
    """Return the entries of the checkpoint that is in force; none where there is none yet."""
    name = ""
    active = os.path.join(directory, "active.dat")
    if os.path.exists(active):
        with open(active, encoding="utf-8") as file:
            name = os.path.basename(file.read().strip())
    if not name:
        return {}
    path = os.path.join(directory, name)
    if not os.path.exists(path):  # most positions may be in it
        remedy = f"it names {name}, which is not there: give the registry as a whole"
        raise ConfigError(active, [Mistake("--registry", "", remedy)])
    with open(path, "rb") as file:
        return {entry["_key"]: entry for entry in _loaded(path, file.read())}


def _apply_log(path: str, entries: dict[str, Any]) -> None:
    if not os.path.exists(path):
        return
    operation = ""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                value = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                if not file.read(1):
                    break  # a torn last line, as Filebeat takes it
                remedy = f"line {number} is damaged, and more follow: {_MEND}"
                raise ConfigError(path, [Mistake("--registry", "", remedy)]) from error
            if "op" in value:
                operation = value["op"]
            elif operation == "set":
                entries[value["k"]] = value["v"]
            elif operation == "remove":
                entries.pop(value["k"], None)


def _old_entries(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        listed = _loaded(path, file.read())
    return {f"filebeat::logs::{number}": entry for number, entry in enumerate(listed)}


def _loaded(path: str, content: bytes) -> Iterator[dict[str, Any]]:
    try:
        yield from orjson.loads(content)
    except orjson.JSONDecodeError as error:
        remedy = f"it is no JSON ({error}): stop Filebeat, and copy its registry again"
        raise ConfigError(path, [Mistake("--registry", "", remedy)]) from error


def _position(key: str, value: dict[str, Any]) -> TakenPosition | None:
    """Return the position of an entry of the inputs log and filestream; None for any other."""
    if "FileStateOS" in value or "offset" in value:  # the input log
        state = value.get("FileStateOS") or {}
        return TakenPosition(
            path=str(value.get("source", "")),
            offset=int(value.get("offset", 0)),
            inode=int(state.get("inode", 0)),
            device=int(state.get("device", 0)),
        )
    cursor = value.get("cursor") or {}
    if not key.startswith("filestream::") or "offset" not in cursor:
        return None
    *_, kind, name = key.split("::")
    inode, device = [*name.split("-"), "0"][:2] if kind == "native" else ("0", "0")
    return TakenPosition(
        path=str((value.get("meta") or {}).get("source", "")),
        offset=int(cursor["offset"]),
        inode=int(inode),
        device=int(device),
        fingerprint=name if kind == "fingerprint" else "",
    )
