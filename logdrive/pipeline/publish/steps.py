"""In which order the parts of a table get to their copy, so that whoever reads it meanwhile finds a
whole version of the table, or none yet. Pure.

Files of rows come before what names them. Where the copy's log goes on, entry follows entry, and a
checkpoint comes behind them. A new copy, and one that lacks an entry which is gone, or an entry of
which files are gone, gets a checkpoint of the present version: all of it is there at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from logdrive.pipeline.publish.snapshot import (
    LOG,
    TableSnapshot,
    checkpoint_version,
    entry_version,
)


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do to a copy, in this order, and then to replace the checkpoint's hint."""

    files: Mapping[str, int]
    """Files of rows to write, in any order, and their bytes."""
    log: tuple[str, ...]
    """Entries and checkpoints to write, one after the other."""
    obsolete: tuple[str, ...]
    """Objects to delete, in any order."""

    @property
    def bytes(self) -> int:
        """The bytes of all files of rows to write."""
        return sum(self.files.values())


def plan_steps(table: TableSnapshot, there: Mapping[str, int]) -> Steps | None:
    """Return what makes a copy that has the objects *there* the copy of *table*.

    *there* are names relative to the copy, and their bytes. None if the copy can't get the versions
    behind its own one by one, and *table* has no checkpoint of its version: then it needs one.
    Raises `StorageError` if an entry can't be read.
    """
    published = readable_version(there)
    behind = range(published + 1, table.version + 1)
    wanted = dict(table.live)
    added: Mapping[str, int] | None = None
    if published >= 0 and all(version in table.entries for version in behind):
        added = table.files_added(published)

    if added is not None and all(map(table.has_file, added)):
        newest = max(table.checkpoints, default=None)
        log = [table.entries[version] for version in behind]
        log += [] if newest is None else [table.checkpoints[newest]]
        wanted |= added
    elif table.version in table.checkpoints:
        # the checkpoint first, as readers take an entry behind a hole for damage
        both = (table.checkpoints[table.version], table.entries.get(table.version))
        log = [name for name in both if name is not None]
    else:
        return None
    return Steps(
        files={name: size for name, size in wanted.items() if there.get(name) != size},
        log=tuple(name for name in log if name not in there),
        obsolete=tuple(name for name in there if _is_obsolete(table, name)),
    )


def readable_version(there: Mapping[str, int]) -> int:
    """Return the newest version that readers find in a copy with the objects *there*; -1 for none.

    That of a checkpoint, or else of the log's first entry, and as many entries as follow without a
    hole.
    """
    entries = {entry_version(name) for name in there} - {None}
    checkpoints = {checkpoint_version(name) for name in there} - {None}
    newest = max((version for version in checkpoints if version is not None), default=-1)
    while newest + 1 in entries:
        newest += 1
    return newest


def _is_obsolete(table: TableSnapshot, name: str) -> bool:
    """Return whether the copy is to lose the object *name*, as the table has lost that file."""
    versions = (entry_version(name), checkpoint_version(name))
    version = next((version for version in versions if version is not None), None)
    if version is not None:
        # of the newest checkpoint, which the copy has then, readers need nothing before it
        newest = max(table.checkpoints, default=-1)
        return version < min(newest, min(table.entries, default=table.version))
    is_file = name.endswith(".parquet") and not name.startswith(f"{LOG}/")
    return is_file and name not in table.live and not table.has_file(name)
