"""Finds the source that an operator names: by its path, or by the beginning of its origin id."""

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from agent.control.messages import ControlError
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.paths import path_from_text, printable_path
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.printable import escape_unprintable

_FEWEST_DIGITS: Final = 6
"""Characters of an origin id that name a source."""
_MOST_NAMED: Final = 8
"""Sources that an error names."""


def find_source(registry: SourceRegistry, name: str) -> Source | CheckpointEntry:
    """Return what *name* stands for: a living source, or an entry that is ended or absent.

    Raises `ControlError` if that is none, or several.
    """
    found = _find_all(registry, name)
    if len(found) > 1:
        raise _several(name, found)
    return found[0]


def find_source_in_place(
    registry: SourceRegistry, name: str, is_in_place: Callable[[Source], bool]
) -> tuple[Source | CheckpointEntry, str]:
    """Return what *name* stands for, and how it was chosen, for people: "" for the only one.

    Rotated files keep the path that they were found under. Of several sources with one path that
    is meant which alone has the file that stands there now, as *is_in_place* says. Raises
    `ControlError` if *name* stands for none, or for several of which that does not choose one.
    """
    found = _find_all(registry, name)
    if len(found) == 1:
        return found[0], ""
    in_place = [one for one in found if isinstance(one, Source) and is_in_place(one)]
    if len(in_place) != 1 or not name.startswith("/"):
        raise _several(name, found)
    (source,) = in_place
    return source, (
        f"{len(found)} sources have this path: this is {source.origin}, whose file stands there now"
    )


def _find_all(registry: SourceRegistry, name: str) -> Sequence[Source | CheckpointEntry]:
    """Return all that *name* stands for. Raises `ControlError` if that is none."""
    found = _with_path(registry, name) if name.startswith("/") else _with_id(registry, name.lower())
    if not found:
        raise ControlError(
            f"{name}: no source has this path or origin id: see `logdrive agent source list --all`"
        )
    return found


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
        return []
    everything: list[Source | CheckpointEntry] = [
        *registry.sources,
        *registry.absent.values(),
        *registry.ended.values(),
    ]
    return [one for one in everything if _begins(one.origin, digits)]


def _begins(origin: UUID, digits: str) -> bool:
    return str(origin).startswith(digits) or origin.hex.startswith(digits)
