"""Scopes and streams: making, changing, asking, ending. Whatever is told is durable.

A stream is known by the journal (`logdrive.store.streams.journal`). One that a sink made by making
its segments is taken in when it is first asked for, as equal key ranges of epoch 0, which is how
sinks spread keys over it.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from logdrive.model.units import KIB
from logdrive.store.retention import Policy
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import (
    PreconditionError,
    ScopeExistsError,
    ScopeNotEmptyError,
    StreamExistsError,
    StreamNotSealedError,
    StreamSealedError,
)
from logdrive.store.streams.key_ranges import KeyRange
from logdrive.store.streams.names import check_scope, check_stream, mark_stream, marked_stream
from logdrive.store.streams.state import (
    GroupPut,
    MapPut,
    Put,
    ScopePut,
    Segment,
    Stream,
    StreamConfig,
    StreamPut,
    StreamState,
    TransactionPut,
)
from logdrive.wire.pravega.names import segment_name

_BY_AGE, _BY_SIZE = 1, 2  # Pravega's types of retention, in ms and in bytes
MAX_SEGMENTS = 10_000
"""Segments that a stream may be made with, or scaled to in one step."""
_AT_ONCE = 100
MAX_TAGS = 64 * KIB
"""Characters of all tags of a stream."""


class Streams:
    """All streams of a store.

    Methods raise the `RefusedError` that says why not, and `TransientError` where the store can't
    now.
    """

    def __init__(self, catalogue: Catalog) -> None:
        self._catalogue = catalogue

    # Scopes --------------------------------------------------------------------------------------

    async def create_scope(self, scope: str) -> None:
        """Make a scope."""
        check_scope(scope)
        async with self._catalogue.turn() as state:
            await self._catalogue.adopt_all()
            found = state.scopes.get(scope)
            if found is not None and found.present:
                raise ScopeExistsError(f"scope {scope!r} exists")
            await self._catalogue.commit_puts([ScopePut(scope)])

    async def delete_scope(self, scope: str) -> None:
        """Remove an empty scope."""
        async with self._catalogue.turn():
            await self._catalogue.adopt_all()
            if not (await self._catalogue.scope_state(scope)).empty:
                raise ScopeNotEmptyError(
                    f"scope {scope!r} has streams, reader groups or key-value tables"
                )
            await self._catalogue.commit_puts([ScopePut(scope, present=False)])

    async def delete_scope_with_all(self, scope: str) -> None:
        """Remove a scope with all that is in it, some at a time, the scope itself last; streams
        need not be sealed.
        """
        async with self._catalogue.turn():
            await self._catalogue.adopt_all()
            found = await self._catalogue.scope_state(scope)
            streams = [
                (name, place.stream)
                for name, place in found.places.items()
                if place.stream.status != "deleted"
            ]
            puts: list[Put] = [GroupPut(scope, name, None) for name in found.groups]
            puts += [
                StreamPut(scope, name, msgspec.structs.replace(now, status="deleting"))
                for name, now in streams
            ]
            maps = [(name, now) for name, now in found.maps.items() if now.status != "deleted"]
            puts += [
                MapPut(scope, name, msgspec.structs.replace(now, status="deleting"))
                for name, now in maps
            ]
            for at in range(0, len(puts), _AT_ONCE):
                await self._catalogue.commit_puts(puts[at : at + _AT_ONCE])
            await self._catalogue.commit_puts([ScopePut(scope, present=False)])

    async def scopes(self) -> list[str]:
        """Return all scopes."""
        async with self._catalogue.turn() as state:
            await self._catalogue.adopt_all()
            return sorted(name for name, scope in state.scopes.items() if scope.present)

    async def streams(self, scope: str, *, tag: str | None = None) -> list[str]:
        """Return the streams of a scope: all, or those that have *tag*."""
        async with self._catalogue.turn():
            await self._catalogue.adopt_all()
            places = (await self._catalogue.scope_state(scope)).places
            return [
                name
                for name in _names(places)
                if tag is None or tag in places[name].stream.config.tags
            ]

    # Streams -------------------------------------------------------------------------------------

    async def create(self, scope: str, stream: str, config: StreamConfig) -> None:
        """Make a stream of *config*.min_segments equal key ranges."""
        check_stream(stream)
        _check_size(config)
        if not 1 <= config.min_segments <= MAX_SEGMENTS:
            raise PreconditionError(
                f"a stream has 1 to {MAX_SEGMENTS} segments, not {config.min_segments}"
            )
        async with self._catalogue.turn() as state:
            await self._catalogue.adopt_stream(scope, stream)
            await self._catalogue.scope_state(scope)
            if state.stream_state(scope, stream) is not None:
                raise StreamExistsError(f"stream {scope}/{stream} exists")
            await self._catalogue.commit_puts([self._catalogue.creation_put(scope, stream, config)])

    async def configure(self, scope: str, stream: str, config: StreamConfig) -> None:
        """Change what a stream's maker asked for; its segments stay as they are."""
        _check_size(config)
        async with self._catalogue.turn():
            place = await self._active(scope, stream)
            await self._put(scope, stream, msgspec.structs.replace(place.stream, config=config))

    async def seal(self, scope: str, stream: str) -> None:
        """Let a stream take nothing more; its open transactions are aborted.

        It may be sealed already.
        """
        async with self._catalogue.turn():
            place = await self._catalogue.stream_state(scope, stream)
            if place.stream.status == "sealed":
                return
            sealed = msgspec.structs.replace(place.stream, status="sealed")
            aborting = [(key, t) for key, t in place.transactions.items() if t.status == "open"]
            puts: list[Put] = [
                TransactionPut(scope, stream, key, msgspec.structs.replace(t, status="aborting"))
                for key, t in aborting
            ]
            await self._catalogue.commit_puts([*puts, StreamPut(scope, stream, sealed)])

    async def delete(self, scope: str, stream: str) -> None:
        """Remove a sealed stream with all that it has."""
        async with self._catalogue.turn() as state:
            place = await self._catalogue.stream_state(scope, stream)
            if place.stream.status == "active":
                raise StreamNotSealedError(f"stream {scope}/{stream} is not sealed")
            mark = state.stream_state(scope, mark_stream(stream))
            gone = {stream: place, mark_stream(stream): mark}
            deleting = [
                (name, msgspec.structs.replace(now.stream, status="deleting"))
                for name, now in gone.items()
                if now is not None
            ]
            await self._catalogue.commit_puts(
                [StreamPut(scope, name, now) for name, now in deleting]
            )

    async def create_mark(self, scope: str, stream: str) -> None:
        """Make *stream* if it is the mark of another one: clients expect one beside each stream,
        and few ever ask for it.
        """
        if (of := marked_stream(stream)) is None:
            return
        async with self._catalogue.turn() as state:
            if state.stream_state(scope, stream) is None:
                await self._catalogue.stream_state(scope, of)
                await self._catalogue.commit_puts(
                    [self._catalogue.creation_put(scope, stream, StreamConfig())]
                )

    async def truncate(self, scope: str, stream: str, cut: Mapping[int, int]) -> None:
        """Let a stream begin at *cut*: segments before it are deleted, those in it truncated."""
        async with self._catalogue.turn():
            place = await self._catalogue.stream_state(scope, stream)
            layout.check_cut(place.stream, cut)
            for number, offset in cut.items():
                info = self._catalogue.store.info(segment_name(scope, stream, number))
                if info is None or offset > info.length:
                    raise PreconditionError(f"segment {number} has no offset {offset}")
            await self._put(scope, stream, msgspec.structs.replace(place.stream, cut=dict(cut)))

    async def scale(
        self, scope: str, stream: str, sealed: Iterable[int], ranges: Sequence[KeyRange]
    ) -> tuple[int, list[Segment]]:
        """Replace the segments *sealed* by new ones of *ranges*; return the new epoch and all of
        its segments.
        """
        if len(ranges) > MAX_SEGMENTS:
            raise PreconditionError(f"a stream is scaled to {MAX_SEGMENTS} segments at most")
        async with self._catalogue.turn():
            place = await self._active(scope, stream)
            scaled = layout.scale_stream(
                place.stream, sealed, ranges, self._catalogue.clock.now_ms()
            )
            await self._put(scope, stream, scaled)
            return len(scaled.epochs) - 1, layout.current_segments(scaled)

    # Asking --------------------------------------------------------------------------------------

    async def stream(self, scope: str, stream: str) -> Stream:
        """Return a stream's state, for the questions of `logdrive.store.streams.key_ranges`."""
        async with self._catalogue.turn():
            return (await self._catalogue.stream_state(scope, stream)).stream

    async def cut_at(self, scope: str, stream: str, time_ms: int | None = None) -> dict[int, int]:
        """Return where the stream begins, or a place at or before what was written at *time_ms*:
        segment id to offset.

        Retention may have cut more off segments than was asked for here; that is taken into
        account.
        """
        found = await self.stream(scope, stream)
        places = layout.head_cut(found) if time_ms is None else layout.cut_at_time(found, time_ms)
        infos = {
            number: self._catalogue.store.info(segment_name(scope, stream, number))
            for number in places
        }
        return {
            number: max(offset, info.start if (info := infos[number]) is not None else 0)
            for number, offset in places.items()
        }

    def retention_policy(self, name: str) -> Policy | None:
        """Return how much of the stream *name*, `scope/stream`, its maker wants kept, or more where
        a reader group needs it.
        """
        return self._policy(name, "retention_param", held=True)

    def max_retention_policy(self, name: str) -> Policy | None:
        """Return how much is kept of it at most, whatever reader groups need."""
        return self._policy(name, "retention_max", held=False)

    def _policy(self, name: str, field: str, *, held: bool) -> Policy | None:
        scope, stream = name.split("/", 1)
        place = self._catalogue.known_stream(scope, stream)
        if place is None or (limit := getattr(place.stream.config, field)) <= 0:
            return None
        needed: dict[str, int] = {}
        for group in self._catalogue.subscribers(scope, stream) if held else ():
            for number, offset in layout.offsets_needed(
                place.stream, group.needs(scope, stream)
            ).items():
                segment = segment_name(scope, stream, number)
                needed[segment] = min(offset, needed.get(segment, offset))
        kept = {
            _BY_AGE: Policy(name, max_age_ms=limit, needed=needed),
            _BY_SIZE: Policy(name, max_bytes=limit, needed=needed),
        }
        return kept.get(place.stream.config.retention_type)

    async def scope_exists(self, scope: str) -> bool:
        """Tell whether there is such a scope."""
        return scope in await self.scopes()

    # ---------------------------------------------------------------------------------------------

    async def _active(self, scope: str, stream: str) -> StreamState:
        place = await self._catalogue.stream_state(scope, stream)
        if place.stream.status != "active":
            raise StreamSealedError(f"stream {scope}/{stream} is sealed")
        return place

    async def _put(self, scope: str, stream: str, now: Stream) -> None:
        await self._catalogue.commit_puts([StreamPut(scope, stream, now)])


def _names(places: Mapping[str, StreamState]) -> list[str]:
    return sorted(name for name, place in places.items() if place.stream.status != "deleted")


def _check_size(config: StreamConfig) -> None:
    if sum(len(tag) for tag in config.tags) + len(config.tags) > MAX_TAGS:
        raise PreconditionError(f"the tags of a stream have {MAX_TAGS} characters at most")
