"""Finds the source that an operator names: by its path, or by the beginning of its origin id."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from agent.control.messages import ControlError
from agent.inputs.files.followed import FollowedFile
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.paths import path_from_text, printable_path
from agent.sources.place import FileKey
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import os_error_text
from logdrive.host.disk import Disk, FileStat
from logdrive.printable import escape_unprintable

_FEWEST_DIGITS: Final = 6
"""Characters of an origin id that name a source."""
_MOST_NAMED: Final = 8
"""Sources that an error names."""


def find_source(
    registry: SourceRegistry, name: str, *, followed: Mapping[FileKey, FollowedFile], disk: Disk
) -> Source | CheckpointEntry:
    """Return what *name* stands for: a living source, or an entry that is ended or absent.

    A path means what was found under it. Raises `ControlError` if that is none, or several; where
    the file that stands there was found under another path, the error says under which.
    """
    if not name.startswith("/"):
        return _find_by_id(registry, name)
    found = _with_path(registry, name)
    if len(found) > 1:
        raise _several(name, found)
    if found:
        return found[0]
    stat = _stat_or_none(disk, name)
    source = next(_sources_of(stat, [], followed), None) if stat is not None else None
    if source is None:
        raise _none(name)
    raise ControlError(
        f"{name}: no source has this path: the file that stands there was found as "
        f"{printable_path(registry.path_of(source))}, and its source is {source.origin}"
    )


def find_source_in_place(
    registry: SourceRegistry, name: str, *, followed: Mapping[FileKey, FollowedFile], disk: Disk
) -> tuple[Source | CheckpointEntry, str]:
    """Return what *name* stands for, and how it was chosen, as an end of what people are told: ""
    for what has that path alone, or that id.

    Rotated files keep the path that they were found under, so a path means the file that stands
    there now, whatever path it was found under. Where nothing stands there, it means the one source
    that was found there. Raises `ControlError` if it stands for none, or for several.
    """
    if not name.startswith("/"):
        return _find_by_id(registry, name), ""
    found = _with_path(registry, name)
    living = [one for one in found if isinstance(one, Source) and _is_read(one)]
    # as it is written, and as the bytes are that are shown so
    paths = dict.fromkeys((name, *map(registry.path_of, living)))
    stats = [stat for path in paths if (stat := _stat_or_none(disk, path)) is not None]
    here = {source for stat in stats for source in _sources_of(stat, living, followed)}
    if len(here) == 1:
        (source,) = here
        return source, _chosen(registry, source, found)
    if here:
        raise _several(name, list(here))
    if not found:
        raise _none(name)
    if len(found) > 1:
        raise _several(name, found)
    if living and stats:
        raise ControlError(
            f"{name}: no source has the file that stands there now. The one that was found there, "
            f"{living[0].origin}, has another: name it by its id, if that is meant"
        )
    return found[0], ". Its file was found there, and is gone from there" if living else ""


def _stat_or_none(disk: Disk, path: str) -> FileStat | None:
    try:
        return disk.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ControlError(
            f"{printable_path(path)} can't be looked at ({os_error_text(error)}): name the source "
            "by its id"
        ) from error


def _sources_of(
    stat: FileStat, living: Sequence[Source], followed: Mapping[FileKey, FollowedFile]
) -> Iterator[Source]:
    """Yield the sources of the file that *stat* describes: among *living*, or of any path."""
    known = followed.get((stat.device, stat.inode))
    others = [known.source] if known is not None and known.source is not None else []
    for source in (*living, *others):
        if _is_read(source) and source.living is not None and source.living.place.is_at(stat):
            yield source


def _is_read(source: Source) -> bool:
    # of a truncated file, the next life stands there
    return source.living is not None and source.ending is None


def _chosen(
    registry: SourceRegistry, source: Source, found: Sequence[Source | CheckpointEntry]
) -> str:
    """Return why *source* was chosen of those that were *found* under a path, or beside them."""
    if source not in found:
        path = printable_path(registry.path_of(source))
        return f". This is {source.origin}, whose file was found as {path} and stands there now"
    if len(found) == 1:
        return ""
    return (
        f". {len(found)} sources have this path: this is {source.origin}, whose file stands there "
        "now"
    )


def _find_by_id(registry: SourceRegistry, name: str) -> Source | CheckpointEntry:
    """Return what has an id that begins with *name*. Raises `ControlError` for none, or several."""
    found = _with_id(registry, name.lower())
    if len(found) > 1:
        raise _several(name, found)
    if not found:
        raise _none(name)
    return found[0]


def _none(name: str) -> ControlError:
    missing = "path" if name.startswith("/") else f"origin id (a file is named as ./{name})"
    return ControlError(
        f"{name}: no source has this {missing}: see `logdrive agent source list --all`"
    )


def _several(name: str, found: Sequence[Source | CheckpointEntry]) -> ControlError:
    named = ", ".join(str(one.origin) for one in found[:_MOST_NAMED])
    return ControlError(f"{name}: {len(found)} sources have it: name one by its id: {named}")


def _with_path(registry: SourceRegistry, path: str) -> Sequence[Source | CheckpointEntry]:
    """Return the living sources of *path*; where there is none, those that ended or are absent."""
    sources = [source for source in registry.sources if _is_shown(registry.path_of(source), path)]
    entries = [
        entry
        for entry in (*registry.absent.values(), *registry.ended.values())
        if _is_shown(path_from_text(entry.path), path)
    ]
    return [source for source in sources if source.ended is None] or sources or entries


def _is_shown(path: str, name: str) -> bool:
    """Return whether *name* is how *path* is shown: as in records, or as on a terminal."""
    shown = printable_path(path)
    return name in (shown, escape_unprintable(shown))


def _with_id(registry: SourceRegistry, digits: str) -> Sequence[Source | CheckpointEntry]:
    if len(digits) < _FEWEST_DIGITS:
        raise ControlError(
            f"{digits}: of an origin id, {_FEWEST_DIGITS} or more characters are needed (a file is "
            f"named as ./{digits})"
        )
    everything: list[Source | CheckpointEntry] = [
        *registry.sources,
        *registry.absent.values(),
        *registry.ended.values(),
    ]
    return [one for one in everything if _begins(one.origin, digits)]


def _begins(origin: UUID, digits: str) -> bool:
    return str(origin).startswith(digits) or origin.hex.startswith(digits)
