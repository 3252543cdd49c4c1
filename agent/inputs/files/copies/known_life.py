"""What is compared of a generation that the agent knows, to tell copies of it (rule G5)."""

import os
from dataclasses import dataclass
from enum import Enum, auto

from agent.inputs.files.file import Generation
from agent.inputs.files.prefix import compared_bytes
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.identity import FirstLine
from agent.sources.paths import path_from_text
from agent.sources.registration import SourceState
from agent.sources.source import Source
from logdrive.model.numbers import CLOSED, is_closed, position_of
from logdrive.model.units import KIB

EVIDENCE_BYTES = KIB
"""Bytes after the first line that must agree: fewer may be equal in files that are no copies."""


class LifeState(Enum):
    """What is left of a generation."""

    LIVING = auto()
    """Its file is there, or open."""
    ABSENT = auto()
    """Its file can't be looked for now."""
    AWAITED = auto()
    """Its file is gone, and its rest is looked for."""
    ENDED = auto()
    """All of it was read, or told as a gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLife:
    """A generation, as far as copies of it are compared."""

    state: LifeState
    source: Source | None
    """None of one that has ended and been acknowledged."""
    path: str
    """The path that its lines are known by."""
    name: str
    """The path at which its file was seen last."""
    first_line: FirstLine
    prefix: bytes
    """CRCs of its first bytes."""
    number: int
    """The number of the position up to which it was read, or told as a gap; not closed."""
    last: int
    """The number of a later position before which the bytes are known; 0 without one."""
    asked: bool = False
    """Whether the store has yet to say how much of it was read: a checkpoint may lag behind."""

    @property
    def position(self) -> int:
        """The position up to which it was read."""
        return position_of(self.number)

    def is_strong(self, size: int, prefix: bytes) -> bool:
        """Return whether *size* bytes that begin as *prefix* says are too many for chance."""
        needed = self.first_line.span + EVIDENCE_BYTES
        return min(size, self.position) >= needed and compared_bytes(prefix, self.prefix) > 0

    def may_be_at(self, path: str) -> bool:
        """Return whether the file *path* may be this one, or a copy of it, by its name."""
        return path in (self.path, self.name) or self.is_related(path)

    def is_related(self, path: str) -> bool:
        """Return whether *path* is a name as copies of this file get."""
        return is_name_like((self.path, self.name), path)


def is_name_like(own: tuple[str, str], path: str) -> bool:
    """Return whether the name in *path* goes on after that in one of the paths *own*.

    So do `app.log.1` and `app-20261123.log` after `app.log`, and `app2.log` does not.
    """
    name = os.path.basename(path)
    for one in own:
        stem = os.path.splitext(os.path.basename(one))[0]
        if path != one and name.startswith(stem) and not name[len(stem) :][:1].isalnum():
            return True
    return False


def life_of(source: Source, entry: CheckpointEntry | None) -> KnownLife | None:
    """Return what is compared of *source*, whose entry is given where its bytes are gone.

    None for what is no file.
    """
    generation = source.generation
    number = source.cursor - CLOSED if is_closed(source.cursor) else source.cursor
    state = LifeState.LIVING
    if source.ended is not None:
        state = LifeState.ENDED
    elif source.ending is not None:
        state = LifeState.AWAITED
    # of one that awaits bytes the store has said all it can
    asked = (
        source.registration.required
        and source.state is not SourceState.OPEN
        and not source.awaits_bytes
    )
    if isinstance(generation, Generation) and generation.first_line is not None:
        return KnownLife(
            state=state,
            source=source,
            path=generation.place.path,
            name=generation.place.name,
            first_line=generation.first_line,
            prefix=generation.prefix,
            number=number,
            last=generation.last_number,
            asked=asked,
        )
    if entry is None or generation is not None:
        return None
    return KnownLife(
        state=state,
        source=source,
        path=path_from_text(entry.path),
        name=path_from_text(entry.name),
        first_line=entry.first_line,
        prefix=entry.prefix,
        number=number,
        last=entry.last,
        asked=asked,
    )


def life_of_entry(entry: CheckpointEntry) -> KnownLife:
    """Return what is compared of a generation that has ended, or whose file is absent."""
    return KnownLife(
        state=LifeState.ABSENT if entry.done is None else LifeState.ENDED,
        source=None,
        path=path_from_text(entry.path),
        name=path_from_text(entry.name),
        first_line=entry.first_line,
        prefix=entry.prefix,
        number=entry.number - CLOSED if is_closed(entry.number) else entry.number,
        last=entry.last if entry.done is None else 0,
    )
