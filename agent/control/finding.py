"""Finds the source that an operator names: by its path, or by the beginning of its origin id."""

from collections.abc import Sequence
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
    found = _with_path(registry, name) if name.startswith("/") else _with_id(registry, name.lower())
    if not found:
        raise ControlError(
            f"{name}: no source has this path or origin id: see `logdrive agent source list --all`"
        )
    if len(found) > 1:
        named = ", ".join(str(one.origin) for one in found[:_MOST_NAMED])
        raise ControlError(f"{name}: {len(found)} sources have it: name one by its id: {named}")
    return found[0]


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
