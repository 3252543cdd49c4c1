"""The judge of retention, by what was read and when; it does not know how retention chooses.

A batch was stored between two known times: when the receiver got it (in its header), and when the
reader saw it. If a clock was set, programs have other times, and ages are not judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation.judging.arrivals import Batch

_SOON_MS = 5000  # longer than the slowest sync

Place = tuple[str, str]
"""A store, and a segment there."""


class CutWronglyError(AssertionError):
    """Retention broke *promise*: it cut what it should have left, or the other way round."""

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(what)
        self.promise = promise


@dataclass(frozen=True, slots=True)
class Stored:
    """A batch as retention sees it; times are ms since 1970."""

    offset: int  # in the segment
    end: int
    received: int  # by the receiver: it was stored after that
    seen: int  # by the reader: it was stored before that


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut: the start of a segment has moved."""

    place: Place
    before: int  # the start before
    start: int  # the start now
    at: int  # when it was noticed, ms since 1970


@dataclass(slots=True)
class Retained:
    """Every batch ever read, by segment, and every cut noticed."""

    batches: dict[Place, list[Stored]] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)

    def read(self, batch: Batch, now: int) -> None:
        """Add *batch*, which was read at *now*, in ms since 1970."""
        stored = Stored(batch.offset, batch.end, batch.header["received"], now)
        self.batches.setdefault((batch.store, batch.segment), []).append(stored)

    def begins(self, place: Place, before: int, start: int, now: int) -> None:
        """Add a cut if the start of a segment has moved from *before*."""
        if start > before:
            self.cuts.append(Cut(place, before, start, now))

    def judge_young(self, most_ms: int) -> None:
        """Raise `CutWronglyError` if a batch was cut that was younger than *most_ms*.

        Age must be the only reason to cut.
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
        """Raise `CutWronglyError` if a batch is left that was read before *since*.

        All of those have become too old since.
        """
        for place, left in self._left(since):
            what = (
                f"{place}: what stands at {left.offset} was seen at {left.seen}, and is still there"
            )
            raise CutWronglyError("retention cuts what is too old", what)

    def judge_order(self, since: int, *, own: bool) -> None:
        """Raise `CutWronglyError` if a batch was cut after *since*, and an older one is left.

        All was read at *since*. With *own*, receivers have stores of their own, so that a batch is
        stored soon after it was received, or not at all.
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
        """Yield the first batch left in each segment, if it was seen before *since*."""
        starts = {cut.place: cut.start for cut in self.cuts}
        for place, batches in self.batches.items():
            first = next((batch for batch in batches if batch.offset >= starts.get(place, 0)), None)
            if first is not None and first.seen <= since:
                yield place, first
