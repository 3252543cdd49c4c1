"""Indices of the sources on one connection, by which S, P, B and E frames name them (rule D1).

No index is given twice on a connection. A source whose count is not known has several, one for each
count asked for, until the answers decide (rule G3). From then on it has one, and is *registered*:
of that only the number is kept, as there are thousands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from agent.sources.source import Source
from logdrive.wire.lumberjack.frames import SourceFrame


@dataclass(slots=True)
class AskedIndex:
    """What an index names that was asked for."""

    source: Source | None
    """The source; None once the index is given up, but not answered: the receiver counts unanswered
    ones, so only then may it be freed.
    """

    count: int
    """The count that it asks for (rule G3)."""

    origin: UUID
    """The origin id of that count."""

    answered: bool = False
    """Whether a P or an E came for it."""


class SourceIndices:
    """The live indices. *on_freed* is called when `take_freeing_frames` has another frame."""

    def __init__(self, on_freed: Callable[[], None]) -> None:
        self._on_freed = on_freed
        # Registered sources by index, and the index of each.
        self._registered: dict[int, Source] = {}
        self._index_of: dict[Source, int] = {}
        # Indices of sources whose answers have not decided yet, and those of each. No source is in
        # both tables.
        self._asked: dict[int, AskedIndex] = {}
        self._asked_for: dict[Source, tuple[int, ...]] = {}
        # The lowest index that was never given.
        self._next = 0
        # Frames that free indices.
        self._freeing: list[bytes] = []
        # How many were asked for and have no answer.
        self.unanswered = 0

    def __len__(self) -> int:
        return len(self._registered) + len(self._asked)

    @property
    def sources(self) -> int:
        """How many sources have an index."""
        return len(self._index_of) + len(self._asked_for)

    @property
    def registered(self) -> list[Source]:
        """The registered sources."""
        return list(self._index_of)

    def was_given(self, index: int) -> bool:
        """Return whether *index* was given on this connection."""
        return index < self._next

    def index_of(self, source: Source) -> int:
        """Return the index of a registered source."""
        return self._index_of[source]

    def ask(self, source: Source, count: int, origin: UUID) -> int:
        """Return a new index, to ask for *count* of *source*, which is not registered."""
        index = self._next
        self._next += 1
        self._asked[index] = AskedIndex(source, count, origin)
        self._asked_for[source] = (*self._asked_for.get(source, ()), index)
        self.unanswered += 1
        return index

    def count_answer(self, index: int) -> AskedIndex | None:
        """Count the first answer for *index*; return what it names, None if it was freed.

        A source that was registered is so again after `register`.
        """
        if index in self._registered:
            self.reconsider(self._registered[index])
        asked = self._asked.get(index)
        if asked is None:
            return None
        self.unanswered -= not asked.answered
        asked.answered = True
        self._free_if_answered(index)
        return asked

    def register(self, source: Source) -> None:
        """Keep the index of the count that *source* has now, and give up its others."""
        indices = self._asked_for[source]
        own = next(index for index in indices if self._asked[index].count == source.count)
        self._asked_for[source] = tuple(index for index in indices if index != own)
        self.give_up(source)
        del self._asked[own]
        self._registered[own] = source
        self._index_of[source] = own

    def reconsider(self, source: Source) -> None:
        """Treat *source*, if it is registered, as one whose answer has just come.

        Call it before its count or origin id changes.
        """
        index = self._index_of.pop(source, None)
        if index is not None:
            del self._registered[index]
            self._asked[index] = AskedIndex(source, source.count, source.origin, answered=True)
            self._asked_for[source] = (index,)

    def give_up(self, source: Source) -> None:
        """Give up all indices of *source*: each is freed once it is answered."""
        self.reconsider(source)
        for index in self._asked_for.pop(source, ()):
            self._asked[index].source = None
            self._free_if_answered(index)

    def take_freeing_frames(self) -> list[bytes]:
        """Return the S frames that free indices, to be sent next."""
        frames, self._freeing = self._freeing, []
        return frames

    def _free_if_answered(self, index: int) -> None:
        asked = self._asked[index]
        if asked.answered and asked.source is None:
            del self._asked[index]
            self._freeing.append(SourceFrame(index, asked.origin, b"").encode())
            self._on_freed()
