"""The log of a Delta table, one entry a version: written, and read.

An entry is one JSON object a line; the protocol of Delta calls them actions. We write entries of
appends ourselves, and not through delta-rs, for two reasons: its commit lists the whole log and
replays the table, so that it takes longer with each commit and file there is; and it gives an entry
its name before the bytes are on the disk. Here a commit costs two fsyncs, whatever the table's age.

Old entries are deleted once a checkpoint covers them, `delta.logRetentionDuration` after they were
written.
"""

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote, unquote
from uuid import uuid4

import orjson
import pyarrow.parquet as pq

from logdrive.errors import StorageError
from logdrive.pipeline.tables.files import AddedFile, sync_directory

METADATA: Final = "logdrive"
"""The key of our metadata in a commit."""

_DRAFT = ".tmp"  # how the name of an entry ends that is being written
_DRAFT_SECONDS = 86_400  # no commit takes as long

Action = Mapping[str, Any]
"""One line of an entry."""

AddedVersions = list[tuple[int, list[AddedFile]]]
"""Versions of a table in rising order, each with the files of rows that it added."""


def entry_path(path: str, version: int) -> str:
    """Return where the log of the table at *path* has the entry of *version*."""
    return os.path.join(path, "_delta_log", f"{version:020d}.json")


def append_entry(path: str, version: int, actions: Iterable[Action]) -> None:
    """Write the entry of *version*, whole and durable.

    Raises FileExistsError if another writer has made that version, and OSError.
    """
    place = entry_path(path, version)
    draft = os.path.join(
        os.path.dirname(place), f".{uuid4()}{_DRAFT}"
    )  # no reader of Delta lists it
    try:
        with open(draft, "xb") as file:
            file.write(b"\n".join(map(orjson.dumps, actions)))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, place)  # unlike a rename, fails where there is one
    finally:
        with suppress(FileNotFoundError):  # a full disk took no new name
            os.unlink(draft)
    sync_directory(os.path.dirname(place))


def remove_drafts(path: str) -> None:
    """Remove drafts of entries that a crash has left, a day later."""
    with os.scandir(os.path.join(path, "_delta_log")) as files:
        for file in files:
            is_draft = file.name.startswith(".") and file.name.endswith(_DRAFT)
            if is_draft and time.time() - file.stat().st_mtime > _DRAFT_SECONDS:
                os.unlink(file.path)


def read_entry(path: str, version: int) -> list[Action]:
    """Return the actions of *version*. Raises `StorageError` if its entry is gone."""
    try:
        with open(entry_path(path, version), "rb") as entry:
            return [orjson.loads(line) for line in entry.read().splitlines()]
    except FileNotFoundError as error:
        raise StorageError(
            f"{path}: the log no longer has version {version}, so what was added since is unknown: "
            "make the tables that are derived from this one anew, with `logdrive pipeline rebuild`"
        ) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: version {version} can't be read: {error}") from error


def read_added(path: str, after: int, upto: int) -> AddedVersions:
    """Return the files of rows that each version behind *after* has added, up to *upto* included.

    A version that only rearranged rows, as a compaction does, has added none. Raises
    `StorageError` if an entry is gone, or can't be read.
    """
    return [
        (
            version,
            [
                _added_file(path, action["add"])
                for action in read_entry(path, version)
                if "add" in action and action["add"]["dataChange"]
            ],
        )
        for version in range(after + 1, upto + 1)
    ]


def _added_file(path: str, add: Mapping[str, Any]) -> AddedFile:
    name = unquote(add["path"])
    stats = orjson.loads(add["stats"]) if add.get("stats") else {}
    rows = stats.get("numRecords")
    if rows is None:  # another writer's file
        rows = pq.read_metadata(os.path.join(path, name)).num_rows
    return AddedFile(name, add["size"], rows, add.get("partitionValues") or {})


def commit_info(operation: str, note: Mapping[str, Any] | None = None) -> Action:
    """Return what a commit says of itself; *note* is our metadata."""
    info = {
        "timestamp": _now_ms(),
        "operation": operation,
        "operationParameters": {"mode": "Append"} if operation == "WRITE" else {},
        "engineInfo": "logdrive",
        "isBlindAppend": operation == "WRITE",
    }
    return {"commitInfo": info if note is None else info | {METADATA: orjson.dumps(note).decode()}}


def note_of(actions: Iterable[Action]) -> Mapping[str, Any] | None:
    """Return our metadata in the *actions* of an entry, None if it has none."""
    for action in actions:
        if METADATA in (info := action.get("commitInfo", {})):
            note: Mapping[str, Any] = orjson.loads(info[METADATA])
            return note
    return None


def set_mark(application: str, number: int) -> Action:
    """Return the action that sets the number of *application* (a transaction of Delta's)."""
    return {"txn": {"appId": application, "version": number, "lastUpdated": _now_ms()}}


def add_file(file: AddedFile, partition_by: Sequence[str], *, new_rows: bool) -> Action:
    """Return the action that adds *file*; False for *new_rows*: its rows were in other files."""
    return {
        "add": _file_values(file, partition_by)
        | {
            "modificationTime": _now_ms(),
            "dataChange": new_rows,
            "stats": orjson.dumps({"numRecords": file.rows}).decode(),
        }
    }


def remove_file(file: AddedFile, partition_by: Sequence[str]) -> Action:
    """Return the action that removes *file*, whose rows are in another file of the same commit."""
    return {
        "remove": _file_values(file, partition_by)
        | {"deletionTimestamp": _now_ms(), "dataChange": False, "extendedFileMetadata": True}
    }


def _file_values(file: AddedFile, partition_by: Sequence[str]) -> dict[str, Any]:
    return {
        "path": quote(file.name, safe="/=-_.~:"),
        "partitionValues": {name: file.partition.get(name) for name in partition_by},
        "size": file.size,
    }


def conflict_of(
    actions: Iterable[Action], applications: Collection[str], removed: Collection[str]
) -> str | None:
    """Return why *actions* of another writer forbid ours, None if they don't.

    Ours set numbers of *applications* and remove the files *removed*, by their paths in the log.
    """
    for action in actions:
        if action.get("txn", {}).get("appId") in applications:
            return "it has advanced it"
        if "metaData" in action or "protocol" in action:
            return "it has changed its columns or properties"
        if action.get("remove", {}).get("path") in removed:
            return "it has joined the same files"
    return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
