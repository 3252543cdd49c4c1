"""Opens every pack that a stream still has, and compares it with its header (rule R8).

The audit of the tables reads rows alone. This one reads the stream: it finds packs that went bad
where they are stored, and those that lie before they are read into tables.

What can't be read is passed over. Where the next batch begins behind it, only a header says, and
that can't be read either; but the tables know where the batches that they have begin.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import UNSET

from logdrive.errors import ConfigError, LogdriveError, TransientError
from logdrive.model.framing import EVENT_HEAD
from logdrive.pipeline.decode.batches import place_batches
from logdrive.services.reader import SegmentState, ServiceReader
from logdrive.services.stored_packs import StoredPacks

ProgressReport = Callable[[int, int], None]
"""Called with how much of the stream was read, and how much there is, in what its offsets count."""
BatchPlaces = Callable[[str], Sequence[int]]
"""Returns the offsets in a segment, in order, at which batches are known to begin."""
_MOST_UNREAD = 1000  # limit on the places that are kept; the others are counted
_REFUSED = "the service refused: "  # in front of what a store says of its own disk


class UnreadPart(NamedTuple):
    """A part of a segment that can't be read, so that its packs were not looked at."""

    segment: str  # full name
    start: int  # offset in the segment
    end: int  # offset in the segment
    reason: str

    @property
    def text(self) -> str:
        """The part as one line for a person."""
        return (
            f"{self.segment} from {self.start} to {self.end} was not looked at, as it can't be "
            f"read: {self.reason}"
        )


@dataclass(slots=True)
class DeepAudit:
    """What was found in a stream."""

    packs: StoredPacks = field(default_factory=StoredPacks)
    unread: list[UnreadPart] = field(default_factory=list)
    """The first parts that can't be read."""
    unread_parts: int = 0
    """How many there are."""

    @property
    def whole(self) -> bool:
        """True if everything was looked at, and every pack is what its header says."""
        return not (self.packs.faulty or self.unread_parts)

    def add_unread(self, segment: str, start: int, end: int, error: LogdriveError) -> None:
        """Note that [*start*, *end*) of *segment* can't be read for *error*."""
        self.unread_parts += 1
        if len(self.unread) < _MOST_UNREAD:
            reason = str(error).removeprefix(_REFUSED)
            self.unread.append(UnreadPart(segment, start, end, reason))


def audit_packs(
    stream: ServiceReader,
    segments: Sequence[SegmentState],
    on_progress: ProgressReport = lambda _, __: None,
    places: BatchPlaces = lambda _: (),
) -> DeepAudit:
    """Open every pack in *segments* of *stream*, as far as they reach; return what was found.

    What can't be read is noted. Behind it the audit goes on at the next of *places*, if there is
    one in the segment. Takes memory for a few MiB and the content of one pack.
    """
    found, done = DeepAudit(), 0
    whole = sum(state.length - state.start for state in segments)

    def report(so_far: int) -> None:
        on_progress(done + so_far, whole)

    for state in segments:
        _SegmentWalk(stream, state, found, report).look_at_all(places)
        done += state.length - state.start
    return found


class _SegmentWalk:
    """The walk over one segment."""

    def __init__(
        self,
        stream: ServiceReader,
        state: SegmentState,
        found: DeepAudit,
        on_progress: Callable[[int], None],
    ) -> None:
        self._stream = stream
        self._state = state
        self._found = found
        self._on_progress = on_progress
        self._at = state.start  # where the next batch begins

    def look_at_all(self, places: BatchPlaces) -> None:
        """Open the packs of the segment."""
        known: Sequence[int] | None = None
        end = self._state.length
        while (error := self._look_at(end)) is not None:
            if known is None:
                known = places(self._state.segment)
            # one batch at a time, until the one that can't be read is behind us
            following = bisect_right(known, self._at)
            behind = known[following] if following < len(known) else end
            if isinstance(error, TransientError):  # the service stays away: so it does further on
                behind = end
            elif behind < end:
                error = self._look_at(behind)
            if error is not None:
                self._found.add_unread(self._state.segment, self._at, behind, error)
            self._at = behind
            if behind >= end:
                return

    def _look_at(self, stop: int) -> LogdriveError | None:
        """Open the packs up to *stop*, and move on behind them; return why that ended sooner."""
        segment, rest = self._state.segment, b""
        try:
            for _, chunk in self._stream.read_chunks(segment, self._at, stop):
                # a chunk may end inside a batch: that part is looked at with the next chunk
                data, used = rest + chunk, 0
                for batch, start, end in place_batches(
                    segment, self._at, data, self._stream.offset_unit
                ):
                    if batch.header is not None and batch.header.form is not UNSET:
                        pack = data[start + EVENT_HEAD : end]
                        self._found.packs.look_at_pack(segment, batch, pack)
                    self._at, used = batch.next, end
                rest = data[used:]
                self._on_progress(self._at - self._state.start)
        except ConfigError:  # wrong for all of the stream
            raise
        except LogdriveError as error:
            return error
        return None
