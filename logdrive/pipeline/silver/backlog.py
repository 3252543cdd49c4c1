"""Which files of bronze are still to be made into silver, and how many of them at a time.

Silver follows the versions of `bronze.events`. Of a table whose past is no longer there, as after a
compaction, the first fill takes all files of one version instead, in several steps.
"""

import os
from dataclasses import dataclass

from logdrive.errors import StorageError
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tasks import check_stop

_VERSIONS = 500  # limit on versions that are looked at for one step
_COUNTED = 50_000  # limit on versions that are looked at for how much waits: 20 µs each
NOTHING = -1
"""The version before the first."""


@dataclass(frozen=True, slots=True)
class BronzePosition:
    """How far silver has come in `bronze.events`."""

    done: int = NOTHING
    """The version up to which all rows are in silver."""
    filling: int | None = None
    """The version of which *rest* are the files that are still to be read."""
    rest: tuple[tuple[str, int], ...] = ()
    """Names and sizes of files."""


@dataclass(frozen=True, slots=True)
class BronzeChunk:
    """Files for one step, and where silver is after it."""

    files: tuple[tuple[str, int], ...]
    """Names and sizes of files; there may be none, as in a compaction."""
    after: BronzePosition


def next_chunk(events: AppendTable, at: BronzePosition, limit: int) -> BronzeChunk | None:
    """Return the files behind *at* for one step, *limit* bytes or one version or file at least.

    None if there is nothing new. Raises `StorageError` if silver was left behind for so long that
    the log of *events* no longer tells what is new.
    """
    if at.filling is None and at.done == NOTHING and not _has_past(events):
        every = ((name, os.path.getsize(name)) for name in sorted(events.files))
        relative = tuple((os.path.relpath(name, events.path), size) for name, size in every)
        at = BronzePosition(NOTHING, events.version, relative)
    if at.filling is not None:
        return _part_of_fill(at, at.filling, limit)

    files: list[tuple[str, int]] = []
    done, size = at.done, 0
    for version, added in events.added_since(at.done, at.done + _VERSIONS):
        more = sum(file.size for file in added)
        if files and size + more > limit:
            break
        files += [(file.name, file.size) for file in added]
        done, size = version, size + more
    return BronzeChunk(tuple(files), BronzePosition(done)) if done > at.done else None


def count_waiting(events: AppendTable, at: BronzePosition) -> int | None:
    """Return how many bytes the files behind *at* have, by the log: what all steps read together.

    None if that many versions wait that the count would take longer than a second or two. Raises as
    `next_chunk`, and `StoppedError`.
    """
    done = at.done if at.filling is None else at.filling
    if events.version - done > _COUNTED:
        return None
    if at.filling is None and at.done == NOTHING and not _has_past(events):
        return sum(file.size for file in events.live_files())
    waiting = sum(size for _, size in at.rest)
    while done < events.version:
        check_stop()
        upto = min(done + _VERSIONS, events.version)
        waiting += sum(file.size for _, added in events.added_since(done, upto) for file in added)
        done = upto
    return waiting


def _part_of_fill(at: BronzePosition, version: int, limit: int) -> BronzeChunk:
    count, size = 0, 0
    for _, bytes_of_file in at.rest:
        if count and size + bytes_of_file > limit:
            break
        count, size = count + 1, size + bytes_of_file
    rest = at.rest[count:]
    after = BronzePosition(NOTHING, version, rest) if rest else BronzePosition(version)
    return BronzeChunk(at.rest[:count], after)


def _has_past(events: AppendTable) -> bool:
    """Return whether all files that *events* ever added are still there."""
    try:
        versions = events.added_since(NOTHING)
    except StorageError:
        return False
    names = (file.name for _, added in versions for file in added)
    return all(os.path.exists(os.path.join(events.path, name)) for name in names)
