"""What a Delta table on this machine has, as far as a copy of it is made of that."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import orjson

from logdrive.errors import StorageError
from logdrive.pipeline.tables.delta_log import read_entry
from logdrive.pipeline.tables.leftovers import is_leftover
from logdrive.pipeline.tables.open_table import open_table_as_it_is

LOG: Final = "_delta_log"
HINT: Final = f"{LOG}/_last_checkpoint"
"""The object that tells readers where the newest checkpoint is."""
_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table as of one version, and what its log still has of earlier ones."""

    path: str
    table_id: str
    version: int
    live: Mapping[str, int]
    """The files of the version, relative to the table, and their bytes."""
    entries: Mapping[int, str]
    """The names of the log's entries, by version."""
    checkpoints: Mapping[int, str]
    """The names of the checkpoints that are one file, by version."""
    hint: bytes | None
    """The content of `HINT`, if that names one of *checkpoints*."""

    def files_added(self, after: int) -> dict[str, int]:
        """Return the files that the versions behind *after* added, and their bytes.

        Raises `StorageError` if an entry is gone or can't be read.
        """
        return {
            unquote(action["add"]["path"]): int(action["add"]["size"])
            for version in range(after + 1, self.version + 1)
            for action in read_entry(self.path, version)
            if "add" in action
        }

    def has_file(self, name: str) -> bool:
        """Return whether the table's directory has the file *name* now."""
        return os.path.exists(os.path.join(self.path, name))


def list_tables(directory: str) -> list[str]:
    """Return the Delta tables in the rooms of *directory*, as `bronze/events`, in their order."""
    found = []
    for room in sorted(os.listdir(directory)):
        place = os.path.join(directory, room)
        if os.path.isdir(place) and not is_leftover(room):
            found += [
                f"{room}/{name}"
                for name in sorted(os.listdir(place))
                if not name.startswith(".") and _has_log(os.path.join(place, name))
            ]
    return found


def _has_log(path: str) -> bool:
    try:
        names = os.listdir(os.path.join(path, LOG))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(_ENTRY.fullmatch(name) or _CHECKPOINT.fullmatch(name) for name in names)


def take_snapshot(path: str, version: int | None = None) -> TableSnapshot:
    """Return what the table at *path* has, as of *version* or now; others may write it meanwhile.

    Raises `StorageError`, also if the copy of its files and log would not be all of it.
    """
    table = open_table_as_it_is(path, version)
    if table.foreign_features:
        raise StorageError(
            f"{path} was given features of Delta that its readers must know, such as deletion "
            "vectors: drop them, a copy would lack what belongs to them"
        )
    entries: dict[int, str] = {}
    checkpoints: dict[int, str] = {}
    for name in sorted(os.listdir(os.path.join(path, LOG))):
        place = f"{LOG}/{name}"
        for kind, of in ((entries, entry_version(place)), (checkpoints, checkpoint_version(place))):
            if of is not None and of <= table.version:
                kind[of] = place
    return TableSnapshot(
        path=path,
        table_id=table.table_id,
        version=table.version,
        live={file.name: file.size for file in table.live_files()},
        entries=entries,
        checkpoints=checkpoints,
        hint=_read_hint(path, checkpoints),
    )


def _read_hint(path: str, checkpoints: Mapping[int, str]) -> bytes | None:
    try:
        with open(os.path.join(path, HINT), "rb") as file:
            hint = file.read()
        return hint if int(orjson.loads(hint)["version"]) in checkpoints else None
    except (OSError, ValueError, KeyError):
        return None


def entry_version(name: str) -> int | None:
    """Return the version of an entry of the log, by its name relative to the table; else None."""
    return _version(_ENTRY, name)


def checkpoint_version(name: str) -> int | None:
    """Return the version of a checkpoint, by its name relative to the table; else None."""
    return _version(_CHECKPOINT, name)


def _version(pattern: re.Pattern[str], name: str) -> int | None:
    place, _, plain = name.rpartition("/")
    found = pattern.fullmatch(plain) if place == LOG else None
    return int(found[1]) if found is not None else None
