"""Scopes and streams: create, change, query, delete. All results are durable.

Streams are in the journal (`logdrive.store.streams.journal`). A stream that a sink made by creating
its segments is adopted when it is first asked for, as equal key ranges of epoch 0, which is how
sinks distribute keys over it.
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
"""Limit on the segments with which a stream is created, or to which one step scales it."""
_AT_ONCE = 100
"""Puts in one change when a scope is deleted with all that it has."""
MAX_TAGS = 64 * KIB
"""Limit on the characters of all tags of a stream."""


class Streams:
    """All streams of a store.

    Methods raise the `StreamsError` that gives the reason of a refusal, and `TransientError` if the
    store can't write now.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    # Scopes --------------------------------------------------------------------------------------

    async def create_scope(self, scope: str) -> None:
        """Create a scope."""
        check_scope(scope)
        async with self._catalog.turn() as state:
            await self._catalog.adopt_all()
            existing = state.scopes.get(scope)
            if existing is not None and existing.present:
                raise ScopeExistsError(f"scope {scope!r} exists")
            await self._catalog.commit_puts([ScopePut(scope)])

    async def delete_scope(self, scope: str) -> None:
        """Delete an empty scope."""
        async with self._catalog.turn():
            await self._catalog.adopt_all()
            if not (await self._catalog.scope_state(scope)).empty:
                raise ScopeNotEmptyError(
                    f"scope {scope!r} has streams, reader groups or key-value tables"
                )
            await self._catalog.commit_puts([ScopePut(scope, present=False)])

    async def delete_scope_with_all(self, scope: str) -> None:
        """Delete a scope with all that it has; its streams need not be sealed.

        Several are deleted at a time, the scope itself last.
        """
        async with self._catalog.turn():
            await self._catalog.adopt_all()
            scope_state = await self._catalog.scope_state(scope)
            streams = [
                (name, stream_state.stream)
                for name, stream_state in scope_state.streams.items()
                if stream_state.stream.status != "deleted"
            ]
            puts: list[Put] = [GroupPut(scope, name, None) for name in scope_state.groups]
            puts += [
                StreamPut(scope, name, msgspec.structs.replace(stream, status="deleting"))
                for name, stream in streams
            ]
            puts += [
                MapPut(scope, name, msgspec.structs.replace(table, status="deleting"))
                for name, table in scope_state.maps.items()
                if table.status != "deleted"
            ]
            for at in range(0, len(puts), _AT_ONCE):
                await self._catalog.commit_puts(puts[at : at + _AT_ONCE])
            await self._catalog.commit_puts([ScopePut(scope, present=False)])

    async def scopes(self) -> list[str]:
        """Return all scopes."""
        async with self._catalog.turn() as state:
            await self._catalog.adopt_all()
            return sorted(name for name, scope in state.scopes.items() if scope.present)

    async def streams(self, scope: str, *, tag: str | None = None) -> list[str]:
        """Return the streams of a scope: all, or those with *tag*."""
        async with self._catalog.turn():
            await self._catalog.adopt_all()
            places = (await self._catalog.scope_state(scope)).streams
            return [
                name
                for name in _names(places)
                if tag is None or tag in places[name].stream.config.tags
            ]

    # Streams -------------------------------------------------------------------------------------

    async def create(self, scope: str, stream: str, config: StreamConfig) -> None:
        """Create a stream of *config*.min_segments equal key ranges."""
        check_stream(stream)
        _check_size(config)
        if not 1 <= config.min_segments <= MAX_SEGMENTS:
            raise PreconditionError(
                f"a stream has 1 to {MAX_SEGMENTS} segments, not {config.min_segments}"
            )
        async with self._catalog.turn() as state:
            await self._catalog.adopt_stream(scope, stream)
            await self._catalog.scope_state(scope)
            if state.stream_state(scope, stream) is not None:
                raise StreamExistsError(f"stream {scope}/{stream} exists")
            await self._catalog.commit_puts([self._catalog.creation_put(scope, stream, config)])

    async def configure(self, scope: str, stream: str, config: StreamConfig) -> None:
        """Change a stream's configuration; its segments stay as they are."""
        _check_size(config)
        async with self._catalog.turn():
            stream_state = await self._active(scope, stream)
            await self._put(
                scope, stream, msgspec.structs.replace(stream_state.stream, config=config)
            )

    async def seal(self, scope: str, stream: str) -> None:
        """Seal a stream and abort its open transactions. It may be sealed already."""
        async with self._catalog.turn():
            stream_state = await self._catalog.stream_state(scope, stream)
            if stream_state.stream.status == "sealed":
                return

            sealed = msgspec.structs.replace(stream_state.stream, status="sealed")
            aborting = [
                (key, t) for key, t in stream_state.transactions.items() if t.status == "open"
            ]
            puts: list[Put] = [
                TransactionPut(scope, stream, key, msgspec.structs.replace(t, status="aborting"))
                for key, t in aborting
            ]
            await self._catalog.commit_puts([*puts, StreamPut(scope, stream, sealed)])

    async def delete(self, scope: str, stream: str) -> None:
        """Delete a sealed stream with all that it has."""
        async with self._catalog.turn() as state:
            stream_state = await self._catalog.stream_state(scope, stream)
            if stream_state.stream.status == "active":
                raise StreamNotSealedError(f"stream {scope}/{stream} is not sealed")
            mark = state.stream_state(scope, mark_stream(stream))
            with_mark = {stream: stream_state, mark_stream(stream): mark}
            await self._catalog.commit_puts(
                [
                    StreamPut(
                        scope, name, msgspec.structs.replace(doomed.stream, status="deleting")
                    )
                    for name, doomed in with_mark.items()
                    if doomed is not None
                ]
            )

    async def create_mark(self, scope: str, stream: str) -> None:
        """Create *stream* if it is the mark stream of another one.

        Clients expect one beside each stream, and few ask for it.
        """
        if (of := marked_stream(stream)) is None:
            return
        async with self._catalog.turn() as state:
            if state.stream_state(scope, stream) is None:
                await self._catalog.stream_state(scope, of)
                await self._catalog.commit_puts(
                    [self._catalog.creation_put(scope, stream, StreamConfig())]
                )

    async def truncate(self, scope: str, stream: str, cut: Mapping[int, int]) -> None:
        """Truncate a stream at *cut*: segments before it are deleted, those in it truncated."""
        async with self._catalog.turn():
            stream_state = await self._catalog.stream_state(scope, stream)
            layout.check_cut(stream_state.stream, cut)
            for number, offset in cut.items():
                info = self._catalog.store.info(segment_name(scope, stream, number))
                if info is None or offset > info.length:
                    raise PreconditionError(f"segment {number} has no offset {offset}")
            await self._put(
                scope, stream, msgspec.structs.replace(stream_state.stream, cut=dict(cut))
            )

    async def scale(
        self, scope: str, stream: str, sealed: Iterable[int], ranges: Sequence[KeyRange]
    ) -> tuple[int, list[Segment]]:
        """Replace the segments *sealed* by new ones of *ranges*.

        Return the new epoch and all of its segments.
        """
        if len(ranges) > MAX_SEGMENTS:
            raise PreconditionError(f"a stream is scaled to {MAX_SEGMENTS} segments at most")
        async with self._catalog.turn():
            stream_state = await self._active(scope, stream)
            scaled = layout.scale_stream(
                stream_state.stream, sealed, ranges, self._catalog.clock.now_ms()
            )
            await self._put(scope, stream, scaled)
            return len(scaled.epochs) - 1, layout.current_segments(scaled)

    async def add_segments(self, scope: str, stream: str, count: int) -> list[int]:
        """Add *count* segments to which no keys lead, and return their ids.

        They are for clients that choose the segment themselves; for all others the stream is as it
        was.
        """
        async with self._catalog.turn():
            stream_state = await self._active(scope, stream)
            more = layout.add_keyless_segments(stream_state.stream, count)
            before = len(stream_state.stream.segments)
            await self._put(scope, stream, more)
            return [segment.id for segment in more.segments[before:]]

    async def remove_segments(self, scope: str, stream: str, removed: Iterable[int]) -> None:
        """Delete the segments with the ids *removed*, to which no keys lead."""
        async with self._catalog.turn():
            stream_state = await self._catalog.stream_state(scope, stream)
            await self._put(
                scope, stream, layout.remove_keyless_segments(stream_state.stream, removed)
            )

    # Asking --------------------------------------------------------------------------------------

    async def stream(self, scope: str, stream: str) -> Stream:
        """Return a stream's state, for the functions of `logdrive.store.streams.key_ranges`."""
        async with self._catalog.turn():
            return (await self._catalog.stream_state(scope, stream)).stream

    async def cut_at(self, scope: str, stream: str, time_ms: int | None = None) -> dict[int, int]:
        """Return a cut, segment id to offset, at or before what was written at *time_ms*.

        None means the stream's beginning. The cut takes into account what retention has cut off.
        """
        state = await self.stream(scope, stream)
        places = layout.head_cut(state) if time_ms is None else layout.cut_at_time(state, time_ms)
        infos = {
            number: self._catalog.store.info(segment_name(scope, stream, number))
            for number in places
        }
        return {
            number: max(offset, info.start if (info := infos[number]) is not None else 0)
            for number, offset in places.items()
        }

    def retention_policy(self, name: str) -> Policy | None:
        """Return how much of the stream *name*, `scope/stream`, its configuration wants kept.

        More is kept if a reader group needs it.
        """
        return self._policy(name, "retention_param", held=True)

    def max_retention_policy(self, name: str) -> Policy | None:
        """Return how much of it is kept at most, whatever reader groups need."""
        return self._policy(name, "retention_max", held=False)

    def _policy(self, name: str, field: str, *, held: bool) -> Policy | None:
        scope, stream = name.split("/", 1)
        stream_state = self._catalog.known_stream(scope, stream)
        if stream_state is None or (limit := getattr(stream_state.stream.config, field)) <= 0:
            return None
        # of several groups the one that is furthest behind counts
        needed: dict[str, int] = {}
        for group in self._catalog.subscribers(scope, stream) if held else ():
            for number, offset in layout.offsets_needed(
                stream_state.stream, group.needs(scope, stream)
            ).items():
                segment = segment_name(scope, stream, number)
                needed[segment] = min(offset, needed.get(segment, offset))
        kept = {
            _BY_AGE: Policy(name, max_age_ms=limit, needed=needed),
            _BY_SIZE: Policy(name, max_bytes=limit, needed=needed),
        }
        return kept.get(stream_state.stream.config.retention_type)

    async def scope_exists(self, scope: str) -> bool:
        """Return whether the scope exists."""
        return scope in await self.scopes()

    # ---------------------------------------------------------------------------------------------

    async def _active(self, scope: str, stream: str) -> StreamState:
        stream_state = await self._catalog.stream_state(scope, stream)
        if stream_state.stream.status != "active":
            raise StreamSealedError(f"stream {scope}/{stream} is sealed")
        return stream_state

    async def _put(self, scope: str, stream: str, state: Stream) -> None:
        await self._catalog.commit_puts([StreamPut(scope, stream, state)])


def _names(places: Mapping[str, StreamState]) -> list[str]:
    return sorted(
        name for name, stream_state in places.items() if stream_state.stream.status != "deleted"
    )


def _check_size(config: StreamConfig) -> None:
    if sum(len(tag) for tag in config.tags) + len(config.tags) > MAX_TAGS:
        raise PreconditionError(f"the tags of a stream have {MAX_TAGS} characters at most")
