"""All scopes, streams and transactions: what the journal says, in memory.

A change is a list of *puts*, each the new state of one thing, and applied all or none. So replaying is assigning, and the whole
state is itself such a list, which is how the journal is kept short.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

CURRENT = -1
"""The `until` of a segment that takes appends, unless its stream is sealed."""


class StreamConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a stream's maker asked for, as it was asked: types and units are Pravega's. Nothing is scaled by itself."""

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
    """A segment of a stream: keys in (low, high], from the epoch in its id until that in which others took its place."""

    id: int
    low: float
    high: float
    until: int = CURRENT


class Stream(msgspec.Struct, frozen=True):
    """One stream. *epochs* are the times (ms) at which each began; *cut* is where it begins now (segment to offset), empty: where it did.

    A deleted one is kept for its *next_number*, so that no segment's name ever stands for other bytes than it once did.
    """

    config: StreamConfig
    segments: tuple[Segment, ...]
    epochs: tuple[int, ...]
    next_number: int
    status: Literal["active", "sealed", "deleting", "deleted"] = "active"
    cut: dict[int, int] = {}


class Transaction(msgspec.Struct, frozen=True):
    """One transaction on the segments of *epoch*; when it commits, what *segments* gathered goes to *targets*, one to one."""

    epoch: int
    opened_ms: int
    segments: tuple[int, ...]
    status: Literal["open", "committing", "committed", "aborting", "aborted"] = "open"
    targets: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        """Tell whether nothing is left to do."""
        return self.status in ("committed", "aborted")


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


Put = ScopePut | StreamPut | TransactionPut


class Change(msgspec.Struct, frozen=True):
    """One record of the journal."""

    puts: tuple[Put, ...]


@dataclass(slots=True)
class Place:
    """A stream and its transactions, by their ids in hex, oldest first."""

    stream: Stream
    transactions: dict[str, Transaction] = field(default_factory=dict)


@dataclass(slots=True)
class Scope:
    """A scope and all streams that it has or had."""

    present: bool = False
    places: dict[str, Place] = field(default_factory=dict)


class State:
    """What all changes so far add up to."""

    def __init__(self) -> None:
        self.scopes: dict[str, Scope] = {}

    def apply(self, puts: Sequence[Put]) -> None:
        """Take in one change."""
        for put in puts:
            scope = self.scopes.setdefault(put.scope, Scope())
            match put:
                case ScopePut():
                    scope.present = put.present
                case StreamPut() if put.stream in scope.places:
                    scope.places[put.stream].stream = put.now
                case StreamPut():
                    scope.places[put.stream] = Place(put.now)
                case TransactionPut(stream=stream, id=key, now=now):
                    if now is None:
                        scope.places[stream].transactions.pop(key, None)
                    else:
                        scope.places[stream].transactions[key] = now

    def place(self, scope: str, stream: str) -> Place | None:
        """Return the stream that is there; None for one that never was, or is deleted."""
        found = self.scopes.get(scope)
        place = found.places.get(stream) if found is not None else None
        return place if place is not None and place.stream.status != "deleted" else None

    def places(self) -> Iterator[tuple[str, str, Place]]:
        """Yield all streams that are there."""
        for scope, found in self.scopes.items():
            for name, place in found.places.items():
                if place.stream.status != "deleted":
                    yield scope, name, place

    def whole(self) -> Iterator[Put]:
        """Yield the puts that make this state from nothing."""
        for scope, found in self.scopes.items():
            yield ScopePut(scope, found.present)
            for name, place in found.places.items():
                yield StreamPut(scope, name, place.stream)
                for key, now in place.transactions.items():
                    yield TransactionPut(scope, name, key, now)
