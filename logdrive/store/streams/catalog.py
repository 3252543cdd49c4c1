"""The catalog: the state of all streams, kept consistent with their segments.

Changes take turns. A turn examines the state, submits one change and what it requires of segments,
in that order, and ends once everything is durable. So a turn finds nothing pending, and a crash
leaves some beginning of what was submitted; the next start, or the turn after one that failed, does
the rest.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from logdrive.host.clock import Clock
from logdrive.model.units import MIB
from logdrive.store.engine import Store
from logdrive.store.journal import JournaledState
from logdrive.store.streams.effects import follow_up_puts
from logdrive.store.streams.errors import NoSuchScopeError, NoSuchStreamError, StreamsError
from logdrive.store.streams.journal import Journal
from logdrive.store.streams.key_ranges import new_stream
from logdrive.store.streams.names import mark_stream, stream_of_first_segment
from logdrive.store.streams.reconcile import (
    Reconciler,
    reconcile_kv_table,
    reconcile_stream,
    reconcile_watermark,
)
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


class Catalog(JournaledState[CatalogState, Put]):
    """The state of all streams of *store*; `Streams` and `Transactions` take turns at changing it.

    A `StreamsError` in a turn leaves everything as it was. *store* must run as long as the catalog
    is used.
    """

    def __init__(self, store: Store, *, clock: Clock, random: Random, slack: int = MIB) -> None:
        super().__init__(Journal(store, slack=slack), refusal=StreamsError)
        self.store = store
        self.clock = clock
        self.random = random

    async def complete_replay(self) -> None:
        """Do what the streams require of segments, and adopt those that were made without us."""
        for scope, name, stream_state in list(self.state.all_streams()):
            await reconcile_stream(self.store, scope, name, stream_state)
            await self.commit_puts(follow_up_puts(scope, name, stream_state))
        for scope, name, _ in list(self.state.all_streams()):
            await asyncio.gather(*self._reconcile_watermark(scope, name))
        maps = [
            MapPut(scope, name, table)
            for scope, scope_state in self.state.scopes.items()
            for name, table in scope_state.maps.items()
        ]
        # one by one: not all of them may be pending at once
        for put in maps:
            await self._reconcile_kv_tables([put])
        await self.adopt_all()

    async def commit_puts(self, puts: Sequence[Put]) -> None:
        """Make *puts* durable, then what they require of segments, then that this is done.

        Only within a turn.
        """
        while puts:
            submitted: list[asyncio.Future[Any]] = [self.submit_puts(puts)]
            places = self._places(puts)
            for scope, name, stream_state in places:
                submitted += Reconciler(self.store, scope, name, stream_state).submit_changes()
            for put in puts:
                if isinstance(put, WatermarkPut):
                    submitted += self._reconcile_watermark(put.scope, put.stream)
            submitted += self._journal.shorten(self.state)
            await asyncio.gather(*submitted)
            await self._reconcile_kv_tables([put for put in puts if isinstance(put, MapPut)])
            puts = [
                put
                for scope, name, stream_state in places
                for put in follow_up_puts(scope, name, stream_state)
            ]

    def _reconcile_watermark(self, scope: str, stream: str) -> list["asyncio.Future[Any]"]:
        stream_state, mark = (
            self.state.stream_state(scope, stream),
            self.state.stream_state(scope, mark_stream(stream)),
        )
        if stream_state is None or stream_state.watermark is None or mark is None:
            return []
        return reconcile_watermark(self.store, scope, stream, mark.stream, stream_state.watermark)

    async def _reconcile_kv_tables(self, maps: Sequence[MapPut]) -> None:
        """Do what *maps*, which are durable, still require."""
        await asyncio.gather(
            *(
                future
                for put in maps
                for future in reconcile_kv_table(self.store, put.scope, put.name, put.now)
            )
        )
        if deleted := [
            MapPut(put.scope, put.name, replace(put.now, status="deleted"))
            for put in maps
            if put.now.status == "deleting"
        ]:
            await self.submit_puts(deleted)

    def _places(self, puts: Sequence[Put]) -> list[tuple[str, str, StreamState]]:
        names = dict.fromkeys(
            (put.scope, put.stream) for put in puts if isinstance(put, StreamPut | TransactionPut)
        )
        return [
            (scope, name, stream_state)
            for scope, name in names
            if (stream_state := self.state.stream_state(scope, name)) is not None
        ]

    # Finding -------------------------------------------------------------------------------------

    async def stream_state(self, scope: str, stream: str) -> StreamState:
        """Return a stream, within a turn. Raises `NoSuchScopeError`, `NoSuchStreamError`."""
        state = self.state.stream_state(scope, stream)
        if state is None and await self.adopt_stream(scope, stream):
            state = self.state.stream_state(scope, stream)
        if state is None:
            await self.scope_state(scope)
            raise NoSuchStreamError(f"there is no stream {scope}/{stream}")
        return state

    async def scope_state(self, scope: str) -> Scope:
        """Return a scope, within a turn; streams that were not adopted yet make it exist, too.

        Raises `NoSuchScopeError`.
        """
        if not self._is_scope(scope):
            await self.adopt_all()
        if not self._is_scope(scope):
            raise NoSuchScopeError(f"there is no scope {scope!r}")
        return self.state.scopes[scope]

    def _is_scope(self, scope: str) -> bool:
        return scope in self.state.scopes and self.state.scopes[scope].present

    def creation_put(self, scope: str, stream: str, config: StreamConfig) -> StreamPut:
        """Return the put that creates a stream of *config*.min_segments equal key ranges."""
        made = new_stream(
            config, config.min_segments, self.next_number(scope, stream), self.clock.now_ms()
        )
        return StreamPut(scope, stream, made)

    def next_number(self, scope: str, stream: str) -> int:
        """Return the first segment number that no stream of that name has had."""
        scope_state = self.state.scopes.get(scope)
        stream_state = scope_state.streams.get(stream) if scope_state is not None else None
        return stream_state.stream.next_number if stream_state is not None else 0

    def known_stream(self, scope: str, stream: str) -> StreamState | None:
        """Return a stream, as far as it is known without a turn."""
        return self.state.stream_state(scope, stream)

    def active_streams(self) -> list[tuple[str, str, Stream]]:
        """Return the streams that accept appends, as far as they are known without a turn."""
        return [
            (scope, name, stream_state.stream)
            for scope, name, stream_state in self.state.all_streams()
            if stream_state.stream.status == "active"
        ]

    def streams_with_times(self) -> list[tuple[str, str]]:
        """Return the streams whose writers note times, as far as they are known without a turn."""
        return [
            (scope, name)
            for scope, name, stream_state in self.state.all_streams()
            if stream_state.writers
        ]

    def subscribers(self, scope: str, stream: str) -> list[ReaderGroup]:
        """Return the reader groups that hold back a stream's retention.

        Only those known without a turn.
        """
        return [group for _, group in self.state.subscribers(scope, stream)]

    # Adopting ------------------------------------------------------------------------------------

    async def adopt_all(self) -> None:
        """Adopt all streams that were made by creating their segments; within a turn."""
        for segment in self.store.segments():
            names = stream_of_first_segment(segment)
            if names is not None and self.state.stream_state(*names) is None:
                await self.adopt_stream(*names)

    async def adopt_stream(self, scope: str, stream: str) -> bool:
        """Adopt an unknown stream whose segments 0, 1, 2 … exist; within a turn.

        Return whether it was adopted.
        """
        count = 0
        if self.state.stream_state(scope, stream) is not None:
            return False
        while self.store.info(segment_name(scope, stream, segment_id(count, 0))) is not None:
            count += 1
        # no segments, names that are not a stream's, or a stream that was deleted: not adopted
        if (
            count == 0
            or stream_of_first_segment(segment_name(scope, stream, 0)) is None
            or self.next_number(scope, stream)
        ):
            return False
        config = StreamConfig(min_segments=count)
        # the stream's time 0 is before all of its data
        await self.commit_puts(
            [ScopePut(scope), StreamPut(scope, stream, new_stream(config, count, 0, now_ms=0))]
        )
        return True
