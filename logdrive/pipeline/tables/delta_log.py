"""The log of a Delta table, read entry by entry: which files each version has added.

The protocol of Delta calls these the table's actions. An entry is one JSON object a line. Old
entries are deleted once a checkpoint covers them, `delta.logRetentionDuration` after they were
written.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow.parquet as pq

from logdrive.errors import StorageError
from logdrive.pipeline.tables.files import AddedFile

AddedVersions = list[tuple[int, list[AddedFile]]]
"""Versions of a table in rising order, each with the files of rows that it added."""


def entry_path(path: str, version: int) -> str:
    """Return where the log of the table at *path* has the entry of *version*."""
    return os.path.join(path, "_delta_log", f"{version:020d}.json")


def read_added(path: str, after: int, upto: int) -> AddedVersions:
    """Return the files of rows that each version behind *after* has added, up to *upto* included.

    A version that only rearranged rows, as a compaction does, has added none. Raises
    `StorageError` if an entry is gone, or can't be read.
    """
    return [
        (version, [_added_file(path, add) for add in _added_rows(path, version)])
        for version in range(after + 1, upto + 1)
    ]


def _added_rows(path: str, version: int) -> Iterator[Mapping[str, Any]]:
    try:
        with open(entry_path(path, version), "rb") as entry:
            lines = entry.read().splitlines()
    except FileNotFoundError as error:
        raise StorageError(
            f"{path}: the log no longer has version {version}, so what was added since is unknown: "
            "make the tables that are derived from this one anew, with `logdrive pipeline rebuild`"
        ) from error
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error}") from error
    for line in lines:
        add = orjson.loads(line).get("add")
        if add is not None and add["dataChange"]:
            yield add


def _added_file(path: str, add: Mapping[str, Any]) -> AddedFile:
    name = unquote(add["path"])
    stats = orjson.loads(add["stats"]) if add.get("stats") else {}
    rows = stats.get("numRecords")
    if rows is None:  # another writer's file
        rows = pq.read_metadata(os.path.join(path, name)).num_rows
    return AddedFile(name, add["size"], rows, add.get("partitionValues") or {})
