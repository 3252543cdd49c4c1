"""The state of all streams beside the segments that it is about, changed by one at a time.

A turn looks at the state, submits one change and what it asks of segments, in that order, and ends
once all is durable. So whoever has a turn finds nothing pending, and a crash leaves some beginning
of what was submitted, of which the next start does the rest. A turn that fails or is cancelled
midway leaves memory and store apart: the next one begins with what the journal says.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from logdrive.host.clock import Clock
from logdrive.model.units import MIB
from logdrive.store.engine import Store
from logdrive.store.streams.effects import follow_up_puts
from logdrive.store.streams.errors import NoSuchScopeError, NoSuchStreamError, StreamsError
from logdrive.store.streams.journal import Journal
from logdrive.store.streams.key_ranges import new_stream
from logdrive.store.streams.names import mark_stream, stream_of_first_segment
from logdrive.store.streams.reconcile import Reconciler, reconcile_kv_table, reconcile_watermark
from logdrive.store.streams.state import (
    CatalogState,
    MapPut,
    Put,
    ReaderGroup,
    Scope,
    ScopePut,
    Stream,
    StreamConfig,
    StreamPut,
    StreamState,
    TransactionPut,
    WatermarkPut,
)
from logdrive.wire.pravega.names import segment_id, segment_name


class Catalog:
    """What `Streams` and `Transactions` stand on; they take turns at it.

    *store* runs for as long.
    """

    def __init__(self, store: Store, *, clock: Clock, random: Random, slack: int = MIB) -> None:
        self.store, self.clock, self.random = store, clock, random
        self._journal = Journal(store, slack=slack)
        self._state = CatalogState()
        self._turn = asyncio.Lock()
        self._known = False

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[CatalogState]:
        """Have the streams alone. A `StreamsError` leaves everything as it was."""
        async with self._turn:
            known, self._known = self._known, False
            if not known:
                await self._begin()
            try:
                yield self._state
            except StreamsError:
                self._known = True
                raise
            self._known = True

    async def _begin(self) -> None:
        self._state = await self._journal.replay()
        for scope, name, place in list(self._state.all_streams()):
            await asyncio.gather(*Reconciler(self.store, scope, name, place).submit_changes())
            await self.commit_puts(follow_up_puts(scope, name, place))
        for scope, name, _ in list(self._state.all_streams()):
            await asyncio.gather(*self._settle_watermark(scope, name))
        maps = [
            MapPut(scope, name, now)
            for scope, found in self._state.scopes.items()
            for name, now in found.maps.items()
        ]
        await self._settle_maps(maps)
        await self.adopt_all()

    async def commit_puts(self, puts: Sequence[Put]) -> None:
        """Make *puts* durable, then what they ask of the segments, then that this is done; within a
        turn.
        """
        while puts:
            submitted: list[asyncio.Future[Any]] = [self._journal.append_puts(puts)]
            self._state.apply_puts(puts)
            places = self._places(puts)
            for scope, name, place in places:
                submitted += Reconciler(self.store, scope, name, place).submit_changes()
            for put in puts:
                if isinstance(put, WatermarkPut):
                    submitted += self._settle_watermark(put.scope, put.stream)
            submitted += self._journal.shorten(self._state)
            await asyncio.gather(*submitted)
            await self._settle_maps([put for put in puts if isinstance(put, MapPut)])
            puts = [
                put for scope, name, place in places for put in follow_up_puts(scope, name, place)
            ]

    def _settle_watermark(self, scope: str, stream: str) -> list["asyncio.Future[Any]"]:
        place, mark = (
            self._state.stream_state(scope, stream),
            self._state.stream_state(scope, mark_stream(stream)),
        )
        if place is None or place.watermark is None or mark is None:
            return []
        return reconcile_watermark(self.store, scope, stream, mark.stream, place.watermark)

    async def _settle_maps(self, maps: Sequence[MapPut]) -> None:
        """Do what is missing of *maps*, which are durable."""
        await asyncio.gather(
            *(
                future
                for put in maps
                for future in reconcile_kv_table(self.store, put.scope, put.name, put.now)
            )
        )
        if gone := [
            MapPut(put.scope, put.name, replace(put.now, status="deleted"))
            for put in maps
            if put.now.status == "deleting"
        ]:
            submitted = self._journal.append_puts(gone)
            self._state.apply_puts(gone)
            await submitted

    def _places(self, puts: Sequence[Put]) -> list[tuple[str, str, StreamState]]:
        names = dict.fromkeys(
            (put.scope, put.stream) for put in puts if isinstance(put, StreamPut | TransactionPut)
        )
        return [
            (scope, name, place)
            for scope, name in names
            if (place := self._state.stream_state(scope, name)) is not None
        ]

    # Finding -------------------------------------------------------------------------------------

    async def stream_state(self, scope: str, stream: str) -> StreamState:
        """Return a stream, within a turn. Raises `NoSuchScopeError`, `NoSuchStreamError`."""
        found = self._state.stream_state(scope, stream)
        if found is None and await self.adopt_stream(scope, stream):
            found = self._state.stream_state(scope, stream)
        if found is None:
            await self.scope_state(scope)
            raise NoSuchStreamError(f"there is no stream {scope}/{stream}")
        return found

    async def scope_state(self, scope: str) -> Scope:
        """Return a scope, within a turn; it is there also for streams that nobody has asked for.

        Raises `NoSuchScopeError`.
        """
        if not self._is_scope(scope):
            await self.adopt_all()
        if not self._is_scope(scope):
            raise NoSuchScopeError(f"there is no scope {scope!r}")
        return self._state.scopes[scope]

    def _is_scope(self, scope: str) -> bool:
        return scope in self._state.scopes and self._state.scopes[scope].present

    def creation_put(self, scope: str, stream: str, config: StreamConfig) -> StreamPut:
        """Return the put that makes a stream, which is not there, of *config*.min_segments equal
        key ranges.
        """
        made = new_stream(
            config, config.min_segments, self.next_number(scope, stream), self.clock.now_ms()
        )
        return StreamPut(scope, stream, made)

    def next_number(self, scope: str, stream: str) -> int:
        """Return the first segment number that no stream of that name had."""
        found = self._state.scopes.get(scope)
        place = found.places.get(stream) if found is not None else None
        return place.stream.next_number if place is not None else 0

    def known_stream(self, scope: str, stream: str) -> StreamState | None:
        """Return a stream, as far as it is known without a turn."""
        return self._state.stream_state(scope, stream)

    def active_streams(self) -> list[tuple[str, str, Stream]]:
        """Return the streams that take appends, as far as they are known without a turn."""
        return [
            (scope, name, place.stream)
            for scope, name, place in self._state.all_streams()
            if place.stream.status == "active"
        ]

    def streams_with_times(self) -> list[tuple[str, str]]:
        """Return the streams whose writers note times, as far as they are known without a turn."""
        return [(scope, name) for scope, name, place in self._state.all_streams() if place.writers]

    def subscribers(self, scope: str, stream: str) -> list[ReaderGroup]:
        """Return the reader groups that hold a stream's retention back, as far as they are known
        without a turn.
        """
        return [group for _, group in self._state.subscribers(scope, stream)]

    # Adopting ------------------------------------------------------------------------------------

    async def adopt_all(self) -> None:
        """Take in every stream that somebody made by making its segments; within a turn."""
        for segment in self.store.segments():
            found = stream_of_first_segment(segment)
            if found is not None and self._state.stream_state(*found) is None:
                await self.adopt_stream(*found)

    async def adopt_stream(self, scope: str, stream: str) -> bool:
        """Take in a stream that is not known and whose segments 0, 1, 2 … are there, and tell
        whether it was; within a turn.
        """
        count = 0
        if self._state.stream_state(scope, stream) is not None:
            return False
        while self.store.info(segment_name(scope, stream, segment_id(count, 0))) is not None:
            count += 1
        if (
            count == 0
            or stream_of_first_segment(segment_name(scope, stream, 0)) is None
            or self.next_number(scope, stream)
        ):
            return False
        config = StreamConfig(min_segments=count)
        # older than its data
        await self.commit_puts(
            [ScopePut(scope), StreamPut(scope, stream, new_stream(config, count, 0, now_ms=0))]
        )
        return True
