"""All scopes, streams, transactions, reader groups and key-value tables, in memory.

The journal's records lead to this state. A record is a list of *puts*, each the new state of one
thing, which are applied all or none. So replaying is assigning, and the whole state is such a list,
too, which keeps the journal short.

What a status requires of segments is done by `logdrive.store.streams.reconcile`; once that is
durable, `logdrive.store.streams.effects` says what follows. The transitions::

    stream       active -> sealed      requested; its open transactions become aborting
                 sealed -> deleting    requested; also from active, with the whole scope
                 deleting -> deleted   once its segments are deleted
    transaction  open -> committing    requested
                 open -> aborting      requested, or its lease has run out
                 committing -> committed, aborting -> aborted
                                       once its segments are merged, or deleted
    table        active -> deleting -> deleted
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec

CURRENT = -1
"""The `until` of a segment that accepts appends, unless its stream is sealed."""
REMOVED = -2
"""The `until` of a segment without keys that is being deleted."""


_Thing = TypeVar("_Thing")
# Pravega's types of reader groups that hold back retention: by request, or at their checkpoints
_SUBSCRIBING = (1, 2)


class StreamConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stream's configuration as it was requested; types and units are Pravega's."""

    # 0: fixed, 1: by KiB per second, 2: by events per second
    scale_type: int = 0
    # rate of one segment, in the unit of *scale_type*
    target_rate: int = 0
    # limit on the segments that one is split into
    scale_factor: int = 0
    min_segments: int = 1
    # 0: none, 1: by age in ms, 2: by size in bytes
    retention_type: int = 0
    # what is kept, more if a reader group needs it; in the unit of *retention_type*
    retention_param: int = 0
    # what is kept at most, whatever reader groups need
    retention_max: int = 0
    tags: tuple[str, ...] = ()
    timestamp_aggregation_ms: int = 0
    rollover_bytes: int = 0


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """A segment of a stream: keys in (low, high].

    It lasts from the epoch in its id to the epoch *until*, in which others replaced it.

    Where *low* is *high* no key leads to it: it is for clients that choose the segment themselves,
    as Iggy's do. It belongs to all epochs, so its id has epoch 0, and nothing ever replaces it.
    """

    id: int
    low: float
    high: float
    until: int = CURRENT


class Stream(msgspec.Struct, frozen=True):
    """One stream.

    A deleted stream is kept for its *next_number*, so that a segment's name never stands for other
    bytes than before.
    """

    config: StreamConfig
    # all segments that were not cut off, current and past
    segments: tuple[Segment, ...]
    # when each epoch began, in ms since 1970
    epochs: tuple[int, ...]
    # number of the next new segment
    next_number: int
    status: Literal["active", "sealed", "deleting", "deleted"] = "active"
    # where the stream begins now: segment id to offset; empty if nothing was cut off
    cut: dict[int, int] = {}


class Transaction(msgspec.Struct, frozen=True):
    """A transaction on the segments of *epoch*.

    On commit, the content of each of *segments* goes to the segment of *targets* at the same place.
    """

    epoch: int
    # ms since 1970
    opened_ms: int
    # ids of the stream's segments that it writes for
    segments: tuple[int, ...]
    status: Literal["open", "committing", "committed", "aborting", "aborted"] = "open"
    targets: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        """True if nothing is left to do."""
        return self.status in ("committed", "aborted")


class WriterMark(msgspec.Struct, frozen=True, array_like=True):
    """A writer's last note: it had come to *time* when it had written up to *position*.

    *time* is in a unit of the writers' own. If *leaving*, the writer will note nothing more.
    """

    time: int
    position: dict[int, int]
    leaving: bool = False


class Passed(msgspec.Struct, frozen=True, array_like=True):
    """A position in one segment of a watermark's cut, with the segment's keys."""

    segment: int
    low: float
    high: float
    offset: int


class Watermark(msgspec.Struct, frozen=True):
    """The *number*th watermark of a stream: at *cut* all writers had come at least to time *low*.

    None had come further than *high*.
    """

    number: int
    low: int
    high: int
    cut: tuple[Passed, ...]


class StreamCut(msgspec.Struct, frozen=True, array_like=True):
    """A position in a stream: segment to offset.

    Empty is the stream's beginning, or no end.
    """

    scope: str
    stream: str
    at: dict[int, int] = {}


class ReaderGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reader group as it was requested: it reads the streams of *starting*, up to *ending*.

    The group's readers keep their state in a stream of their own, which only they understand.
    *read* is how far the group has read, as they report: by scope/stream, segment to offset.
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
        """Return whether it holds back the retention of a stream."""
        return self.retention_type in _SUBSCRIBING and any(
            (cut.scope, cut.stream) == (scope, stream) for cut in self.starting
        )

    def needs(self, scope: str, stream: str) -> dict[int, int]:
        """Return the cut of a stream from which the group has not read; empty is its beginning."""
        begin = next(
            (cut.at for cut in self.starting if (cut.scope, cut.stream) == (scope, stream)), {}
        )
        return self.read.get(f"{scope}/{stream}", begin)


class KeyValueTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key-value table: equal shares of its keys in *partitions* segments, numbered from *first*.

    A deleted table is kept as a deleted stream is.
    """

    partitions: int
    primary: int
    secondary: int = 0
    rollover_bytes: int = 0
    first: int = 0
    status: Literal["active", "deleting", "deleted"] = "active"


class ScopePut(msgspec.Struct, frozen=True, tag="scope"):
    """A scope exists, or no longer does."""

    scope: str
    present: bool = True


class StreamPut(msgspec.Struct, frozen=True, tag="stream"):
    """The new state of a stream."""

    scope: str
    stream: str
    now: Stream


class TransactionPut(msgspec.Struct, frozen=True, tag="transaction"):
    """The new state of a transaction; None if it is forgotten."""

    scope: str
    stream: str
    id: str
    now: Transaction | None


class WriterPut(msgspec.Struct, frozen=True, tag="writer"):
    """The new note of a writer; None if it is forgotten."""

    scope: str
    stream: str
    writer: str
    now: WriterMark | None


class WatermarkPut(msgspec.Struct, frozen=True, tag="watermark"):
    """The new latest watermark of a stream."""

    scope: str
    stream: str
    now: Watermark


class GroupPut(msgspec.Struct, frozen=True, tag="group"):
    """The new state of a reader group; None if it is deleted."""

    scope: str
    group: str
    now: ReaderGroup | None


class MapPut(msgspec.Struct, frozen=True, tag="map"):
    """The new state of a key-value table."""

    scope: str
    name: str
    now: KeyValueTable


Put = ScopePut | StreamPut | TransactionPut | WriterPut | WatermarkPut | GroupPut | MapPut


class JournalRecord(msgspec.Struct, frozen=True):
    """One record of the journal."""

    puts: tuple[Put, ...]


@dataclass(slots=True)
class StreamState:
    """A stream with its transactions, writers and watermark.

    *transactions* are by id in hex, the oldest first; *writers* are those that note times.
    """

    stream: Stream
    transactions: dict[str, Transaction] = field(default_factory=dict)
    writers: dict[str, WriterMark] = field(default_factory=dict)
    watermark: Watermark | None = None


@dataclass(slots=True)
class Scope:
    """A scope: all streams and key-value tables that it has or had, and its reader groups."""

    present: bool = False
    streams: dict[str, StreamState] = field(default_factory=dict)
    maps: dict[str, KeyValueTable] = field(default_factory=dict)
    groups: dict[str, ReaderGroup] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """True if nothing is left in it."""
        existing = [
            stream_state.stream.status != "deleted" for stream_state in self.streams.values()
        ]
        return not (
            any(existing)
            or self.groups
            or any(table.status != "deleted" for table in self.maps.values())
        )


class CatalogState:
    """The state that all changes so far lead to."""

    def __init__(self) -> None:
        self.scopes: dict[str, Scope] = {}

    def apply_puts(self, puts: Sequence[Put]) -> None:
        """Apply one change."""
        for put in puts:
            scope = self.scopes.setdefault(put.scope, Scope())
            match put:
                case ScopePut():
                    scope.present = put.present
                case StreamPut() if put.stream in scope.streams and put.now.status != "deleted":
                    scope.streams[put.stream].stream = put.now
                case StreamPut():
                    scope.streams[put.stream] = StreamState(put.now)
                case TransactionPut():
                    _set(scope.streams[put.stream].transactions, put.id, put.now)
                case WriterPut():
                    _set(scope.streams[put.stream].writers, put.writer, put.now)
                case WatermarkPut():
                    scope.streams[put.stream].watermark = put.now
                case GroupPut():
                    _set(scope.groups, put.group, put.now)
                case MapPut(name=name, now=table):
                    scope.maps[name] = table

    def stream_state(self, scope: str, stream: str) -> StreamState | None:
        """Return a stream; None if it never existed, or is deleted."""
        scope_state = self.scopes.get(scope)
        stream_state = scope_state.streams.get(stream) if scope_state is not None else None
        return (
            stream_state
            if stream_state is not None and stream_state.stream.status != "deleted"
            else None
        )

    def all_streams(self) -> Iterator[tuple[str, str, StreamState]]:
        """Yield all streams that exist, as scope, name and state."""
        for scope, scope_state in self.scopes.items():
            for name, stream_state in scope_state.streams.items():
                if stream_state.stream.status != "deleted":
                    yield scope, name, stream_state

    def subscribers(self, scope: str, stream: str) -> Iterator[tuple[str, ReaderGroup]]:
        """Yield the reader groups that hold back a stream's retention, as scope/group and state."""
        for name, scope_state in self.scopes.items():
            for group, state in scope_state.groups.items():
                if state.subscribes(scope, stream):
                    yield f"{name}/{group}", state

    def puts_for_all(self) -> Iterator[Put]:
        """Yield the puts that make this state from nothing."""
        for scope, scope_state in self.scopes.items():
            yield ScopePut(scope, scope_state.present)
            for name, stream_state in scope_state.streams.items():
                yield StreamPut(scope, name, stream_state.stream)
                for key, transaction in stream_state.transactions.items():
                    yield TransactionPut(scope, name, key, transaction)
                for writer, noted in stream_state.writers.items():
                    yield WriterPut(scope, name, writer, noted)
                if stream_state.watermark is not None:
                    yield WatermarkPut(scope, name, stream_state.watermark)
            for name, group in scope_state.groups.items():
                yield GroupPut(scope, name, group)
            for name, table in scope_state.maps.items():
                yield MapPut(scope, name, table)


def _set(things: dict[str, _Thing], name: str, state: _Thing | None) -> None:
    if state is None:
        things.pop(name, None)
    else:
        things[name] = state
