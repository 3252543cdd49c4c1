"""In which order the parts of a table get to their copy, so that whoever reads it meanwhile finds a
whole version of the table, or none yet. Pure.

Files of rows come before the entries of the log that name them. Where the copy's log goes on, entry
follows entry, and a checkpoint comes behind them. A new copy begins with the newest checkpoint, or
with the log's first entry if there is none: that comes last, so that all of the table is there at
once. Where entries are gone that the copy lacks, it goes on from a checkpoint, which comes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from logdrive.errors import StorageError
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

    @property
    def is_empty(self) -> bool:
        """Whether the copy has all that the table has, and nothing else."""
        return not (self.files or self.log or self.obsolete)


def plan_steps(table: TableSnapshot, there: Mapping[str, int]) -> Steps:
    """Return what makes a copy that has the objects *there* the copy of *table*.

    *there* are names relative to the copy, and their bytes. Raises `StorageError` where the log has
    lost what the copy needs.
    """
    published = readable_version(there)
    behind = range(published + 1, table.version + 1)
    goes_on = published >= 0 and all(version in table.entries for version in behind)
    base = max(table.checkpoints, default=None)
    if goes_on:
        log = [table.entries[version] for version in behind]
        log += [] if base is None else [table.checkpoints[base]]
    elif base is None:
        log = [_entry(table, version) for version in reversed(range(table.version + 1))]
    else:
        newer = [_entry(table, version) for version in range(base + 1, table.version + 1)]
        first = table.checkpoints[base]
        log = [*newer, first] if published < 0 else [first, *newer]

    wanted = dict(table.live)
    if goes_on:
        wanted |= table.files_added(published)
    return Steps(
        files={name: size for name, size in wanted.items() if there.get(name) != size},
        log=tuple(name for name in log if name not in there),
        obsolete=tuple(name for name in there if _is_obsolete(table, name, base)),
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


def _entry(table: TableSnapshot, version: int) -> str:
    name = table.entries.get(version)
    if name is None:
        raise StorageError(
            f"{table.path}: the log lacks version {version}, and no checkpoint of one file has it"
        )
    return name


def _is_obsolete(table: TableSnapshot, name: str, base: int | None) -> bool:
    """Return whether the copy is to lose the object *name*, as the table has lost that file."""
    versions = (entry_version(name), checkpoint_version(name))
    version = next((version for version in versions if version is not None), None)
    if version is not None:
        oldest = min(table.entries, default=table.version)
        # of the checkpoint *base* readers need nothing before it
        return base is not None and version < min(base, oldest)
    is_file = name.endswith(".parquet") and not name.startswith(f"{LOG}/")
    return is_file and name not in table.live and not table.has_file(name)
