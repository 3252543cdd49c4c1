"""What retention takes and leaves, judged by what was read and when; nothing here knows how it
chooses.

When a batch was stored lies between two times that the tests know: the receiver had it (its header
says when), and the reader saw it. Where a clock jumped the programs rightly think otherwise, and
ages are not judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation.arrivals import Batch

_SOON_MS = 5000
"""Longer than the slowest sync."""

Place = tuple[str, str]
"""A store, and a segment there."""


class CutWronglyError(AssertionError):
    """Retention took what it should have left, or left what it should have taken.

    *promise* is which.
    """

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(what)
        self.promise = promise


@dataclass(frozen=True, slots=True)
class Stored:
    """A batch as retention sees it, stored between *received* and *seen*, in ms."""

    offset: int
    end: int
    received: int
    seen: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The beginning of a segment was found to have moved to *start* at *at* ms."""

    place: Place
    before: int
    start: int
    at: int


@dataclass(slots=True)
class Retained:
    """Every batch ever read, by segment, and every cut noticed."""

    batches: dict[Place, list[Stored]] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)

    def read(self, batch: Batch, now: int) -> None:
        """Take in a batch that is read at *now*."""
        stored = Stored(batch.offset, batch.end, batch.header["received"], now)
        self.batches.setdefault((batch.store, batch.segment), []).append(stored)

    def begins(self, place: Place, before: int, start: int, now: int) -> None:
        """Take in where a segment begins now, that began at *before*."""
        if start > before:
            self.cuts.append(Cut(place, before, start, now))

    def judge_young(self, most_ms: int) -> None:
        """Raise `CutWronglyError` where something was cut that was not older than *most_ms*, which
        was the only reason to cut.
        """
        for cut in self.cuts:
            for batch in self._within(cut.place, cut.before, cut.start):
                if (age := cut.at - batch.received) < most_ms:
                    what = (
                        f"{cut.place}: what stood at {batch.offset} was cut off when it was "
                        f"{age} ms old, at most"
                    )
                    raise CutWronglyError("retention cuts only what is too old", what)

    def judge_old(self, since: int) -> None:
        """Raise `CutWronglyError` where something is left that was read before *since*, and has
        become too old by now.
        """
        for place, left in self._left(since):
            what = (
                f"{place}: what stands at {left.offset} was seen at {left.seen}, and is still there"
            )
            raise CutWronglyError("retention cuts what is too old", what)

    def judge_order(self, since: int, *, own: bool) -> None:
        """Raise `CutWronglyError` where a batch was cut off after *since*, when all was read, and
        an older one beside it is left.

        *own*: receivers have stores of their own, so what they have is stored soon, or not at all.
        """
        for cut in self.cuts:
            taken = [
                batch for batch in self._within(cut.place, cut.before, cut.start) if cut.at > since
            ]
            for place, left in self._left(since) if taken else ():
                latest = min(left.seen, left.received + _SOON_MS) if own else left.seen
                if place[0] == cut.place[0] and latest < taken[-1].received:
                    what = (
                        f"{cut.place[1]} lost what stood at {taken[-1].offset}, and "
                        f"{place[1]} kept what is older at {left.offset}"
                    )
                    raise CutWronglyError("retention cuts the oldest first", what)

    def _within(self, place: Place, start: int, end: int) -> Sequence[Stored]:
        return [batch for batch in self.batches.get(place, ()) if start <= batch.offset < end]

    def _left(self, since: int) -> Iterator[tuple[Place, Stored]]:
        """Yield of each segment the first batch that is left, if it was there before *since*."""
        starts = {cut.place: cut.start for cut in self.cuts}
        for place, batches in self.batches.items():
            first = next((batch for batch in batches if batch.offset >= starts.get(place, 0)), None)
            if first is not None and first.seen <= since:
                yield place, first
