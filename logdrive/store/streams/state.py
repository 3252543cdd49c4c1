"""All scopes, streams, transactions, reader groups and key-value tables: what the journal says, in
memory.

A change is a list of *puts*, each the new state of one thing, and applied all or none. So replaying
is assigning, and the whole state is itself such a list, which is how the journal is kept short.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec

CURRENT = -1
"""The `until` of a segment that takes appends, unless its stream is sealed."""


_Thing = TypeVar("_Thing")
# Pravega's types of reader groups that hold retention back: where they say, or where their
# checkpoints are
_SUBSCRIBING = (1, 2)


class StreamConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a stream's maker asked for, as it was asked: types and units are Pravega's."""

    scale_type: int = 0
    target_rate: int = 0
    scale_factor: int = 0
    min_segments: int = 1
    retention_type: int = 0
    retention_param: int = 0
    retention_max: int = 0
    tags: tuple[str, ...] = ()
    timestamp_aggregation_ms: int = 0
    rollover_bytes: int = 0


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """A segment of a stream: keys in (low, high], from the epoch in its id until that in which
    others took its place.
    """

    id: int
    low: float
    high: float
    until: int = CURRENT


class Stream(msgspec.Struct, frozen=True):
    """One stream.

    *epochs* are the times (ms) at which each began; *cut* is where it begins now (segment to
    offset), empty: where it did.

    A deleted one is kept for its *next_number*, so that no segment's name ever stands for other
    bytes than it once did.
    """

    config: StreamConfig
    segments: tuple[Segment, ...]
    epochs: tuple[int, ...]
    next_number: int
    status: Literal["active", "sealed", "deleting", "deleted"] = "active"
    cut: dict[int, int] = {}


class Transaction(msgspec.Struct, frozen=True):
    """One transaction on the segments of *epoch*; when it commits, what *segments* gathered goes to
    *targets*, one to one.
    """

    epoch: int
    opened_ms: int
    segments: tuple[int, ...]
    status: Literal["open", "committing", "committed", "aborting", "aborted"] = "open"
    targets: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        """Tell whether nothing is left to do."""
        return self.status in ("committed", "aborted")


class WriterMark(msgspec.Struct, frozen=True, array_like=True):
    """What a writer noted last: that it had come to *time*, in a unit of the writers' own, when it
    had written up to *position*.

    One that is *leaving* will note no more.
    """

    time: int
    position: dict[int, int]
    leaving: bool = False


class Passed(msgspec.Struct, frozen=True, array_like=True):
    """A place in one segment of a watermark's cut, with the segment's keys."""

    segment: int
    low: float
    high: float
    offset: int


class Watermark(msgspec.Struct, frozen=True):
    """The *number*th watermark of a stream: at *cut* its writers had come at least to time *low*,
    and none further than *high*.
    """

    number: int
    low: int
    high: int
    cut: tuple[Passed, ...]


class StreamCut(msgspec.Struct, frozen=True, array_like=True):
    """A place in a stream: segment to offset.

    Empty: where the stream begins, or nowhere, where an end is meant.
    """

    scope: str
    stream: str
    at: dict[int, int] = {}


class ReaderGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reader group as its makers asked for it: it reads the streams of *starting*, from there, up
    to *ending*.

    What its readers agree upon stands in a stream of its own, which only they understand. *read* is
    what they say of how far the group has read: by scope/stream, segment to offset.
    """

    id: str
    generation: int = 0
    refresh_ms: int = 0
    checkpoint_ms: int = 0
    outstanding: int = 0
    retention_type: int = 0
    rollover_bytes: int = 0
    starting: tuple[StreamCut, ...] = ()
    ending: tuple[StreamCut, ...] = ()
    read: dict[str, dict[int, int]] = {}

    def subscribes(self, scope: str, stream: str) -> bool:
        """Tell whether it holds back what is cut off a stream."""
        return self.retention_type in _SUBSCRIBING and any(
            (cut.scope, cut.stream) == (scope, stream) for cut in self.starting
        )

    def needs(self, scope: str, stream: str) -> dict[int, int]:
        """Return where in a stream that begins what it has not read; empty: at the stream's
        beginning.
        """
        begin = next(
            (cut.at for cut in self.starting if (cut.scope, cut.stream) == (scope, stream)), {}
        )
        return self.read.get(f"{scope}/{stream}", begin)


class KeyValueTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key-value table: equal shares of its keys in *partitions* table segments, which are
    numbered from *first*.

    A deleted one is kept as a deleted stream is.
    """

    partitions: int
    primary: int
    secondary: int = 0
    rollover_bytes: int = 0
    first: int = 0
    status: Literal["active", "deleting", "deleted"] = "active"


class ScopePut(msgspec.Struct, frozen=True, tag="scope"):
    """A scope comes or goes."""

    scope: str
    present: bool = True


class StreamPut(msgspec.Struct, frozen=True, tag="stream"):
    """A stream is *now* this."""

    scope: str
    stream: str
    now: Stream


class TransactionPut(msgspec.Struct, frozen=True, tag="transaction"):
    """A transaction is *now* this, or forgotten."""

    scope: str
    stream: str
    id: str
    now: Transaction | None


class WriterPut(msgspec.Struct, frozen=True, tag="writer"):
    """A writer has noted *now*, or is forgotten."""

    scope: str
    stream: str
    writer: str
    now: WriterMark | None


class WatermarkPut(msgspec.Struct, frozen=True, tag="watermark"):
    """A stream's latest watermark is *now* this."""

    scope: str
    stream: str
    now: Watermark


class GroupPut(msgspec.Struct, frozen=True, tag="group"):
    """A reader group is *now* this, or gone."""

    scope: str
    group: str
    now: ReaderGroup | None


class MapPut(msgspec.Struct, frozen=True, tag="map"):
    """A key-value table is *now* this."""

    scope: str
    name: str
    now: KeyValueTable


Put = ScopePut | StreamPut | TransactionPut | WriterPut | WatermarkPut | GroupPut | MapPut


class JournalRecord(msgspec.Struct, frozen=True):
    """One record of the journal."""

    puts: tuple[Put, ...]


@dataclass(slots=True)
class StreamState:
    """A stream, its transactions, by their ids in hex, oldest first, the writers that note times,
    and what follows from these.
    """

    stream: Stream
    transactions: dict[str, Transaction] = field(default_factory=dict)
    writers: dict[str, WriterMark] = field(default_factory=dict)
    watermark: Watermark | None = None


@dataclass(slots=True)
class Scope:
    """A scope, all streams and key-value tables that it has or had, and its reader groups."""

    present: bool = False
    places: dict[str, StreamState] = field(default_factory=dict)
    maps: dict[str, KeyValueTable] = field(default_factory=dict)
    groups: dict[str, ReaderGroup] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Tell whether nothing is in it any more."""
        there = [place.stream.status != "deleted" for place in self.places.values()]
        return not (
            any(there)
            or self.groups
            or any(found.status != "deleted" for found in self.maps.values())
        )


class CatalogState:
    """What all changes so far add up to."""

    def __init__(self) -> None:
        self.scopes: dict[str, Scope] = {}

    def apply_puts(self, puts: Sequence[Put]) -> None:
        """Take in one change."""
        for put in puts:
            scope = self.scopes.setdefault(put.scope, Scope())
            match put:
                case ScopePut():
                    scope.present = put.present
                case StreamPut() if put.stream in scope.places and put.now.status != "deleted":
                    scope.places[put.stream].stream = put.now
                case StreamPut():
                    scope.places[put.stream] = StreamState(put.now)
                case TransactionPut():
                    _set(scope.places[put.stream].transactions, put.id, put.now)
                case WriterPut():
                    _set(scope.places[put.stream].writers, put.writer, put.now)
                case WatermarkPut():
                    scope.places[put.stream].watermark = put.now
                case GroupPut():
                    _set(scope.groups, put.group, put.now)
                case MapPut(name=name, now=table):
                    scope.maps[name] = table

    def stream_state(self, scope: str, stream: str) -> StreamState | None:
        """Return the stream that is there; None for one that never was, or is deleted."""
        found = self.scopes.get(scope)
        place = found.places.get(stream) if found is not None else None
        return place if place is not None and place.stream.status != "deleted" else None

    def all_streams(self) -> Iterator[tuple[str, str, StreamState]]:
        """Yield all streams that are there."""
        for scope, found in self.scopes.items():
            for name, place in found.places.items():
                if place.stream.status != "deleted":
                    yield scope, name, place

    def subscribers(self, scope: str, stream: str) -> Iterator[tuple[str, ReaderGroup]]:
        """Yield the reader groups, each with its name as scope/group, that hold a stream's
        retention back.
        """
        for name, found in self.scopes.items():
            for group, now in found.groups.items():
                if now.subscribes(scope, stream):
                    yield f"{name}/{group}", now

    def puts_for_all(self) -> Iterator[Put]:
        """Yield the puts that make this state from nothing."""
        for scope, found in self.scopes.items():
            yield ScopePut(scope, found.present)
            for name, place in found.places.items():
                yield StreamPut(scope, name, place.stream)
                for key, now in place.transactions.items():
                    yield TransactionPut(scope, name, key, now)
                for writer, noted in place.writers.items():
                    yield WriterPut(scope, name, writer, noted)
                if place.watermark is not None:
                    yield WatermarkPut(scope, name, place.watermark)
            for name, group in found.groups.items():
                yield GroupPut(scope, name, group)
            for name, table in found.maps.items():
                yield MapPut(scope, name, table)


def _set(things: dict[str, _Thing], name: str, now: _Thing | None) -> None:
    if now is None:
        things.pop(name, None)
    else:
        things[name] = now
