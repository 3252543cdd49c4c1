"""Changes of streams, topics and partitions that Iggy's clients ask for; durable when they return.

What is made is registered first, so that its number and name are known, then made in the catalog.
What is deleted goes in the opposite order. A crash in between leaves what the next look at the
catalog completes, or forgets.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from msgspec.structs import replace

from logdrive.host.clock import Clock
from logdrive.services.iggy.server.state.names import name_in_catalog
from logdrive.services.iggy.server.state.records import (
    CountersPut,
    IggyPut,
    IggyStreamPut,
    RegisteredIggyStream,
    RegisteredTopic,
    TopicPut,
)
from logdrive.services.iggy.server.state.registry import IggyRegistry
from logdrive.services.iggy.server.state.tables import IggyState, IggyStreamState
from logdrive.services.iggy.server.state.topology import (
    FoundTopic,
    IggyTopology,
    with_partitions_of,
)
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import (
    NoSuchScopeError,
    NoSuchStreamError,
    ScopeExistsError,
    StreamExistsError,
)
from logdrive.store.streams.key_ranges import has_keys
from logdrive.store.streams.state import StreamConfig
from logdrive.store.streams.streams import Streams
from logdrive.wire.iggy.errors import IggyError, Reason, stream_not_found, topic_not_found
from logdrive.wire.iggy.identifiers import Identifier
from logdrive.wire.iggy.options import TopicOptions
from logdrive.wire.pravega.names import segment_name

OnSegment = Callable[[str], Awaitable[None]]
"""Something to be done with a segment, by its full name."""


class TopologyChanges:
    """Creates, changes and deletes the streams and topics of one store.

    Before a segment is deleted, *forget* is called to end what uses it; *empty* deletes all
    messages of one. Methods raise `IggyError`, and what the store raises.
    """

    def __init__(
        self,
        topology: IggyTopology,
        registry: IggyRegistry,
        catalog: Catalog,
        streams: Streams,
        *,
        clock: Clock,
        forget: OnSegment,
        empty: OnSegment,
    ) -> None:
        self._topology = topology
        self._registry = registry
        self._catalog = catalog
        self._streams = streams
        self._clock = clock
        self._forget = forget
        self._empty = empty

    # Streams -------------------------------------------------------------------------------------

    async def create_stream(self, name: str, id_: int | None) -> IggyStreamState:
        """Create a stream with the number *id_*, or one of the server's choice."""
        await self._streams.scopes()
        async with self._registry.turn() as state:
            await self._topology.commit_new(state)
            _check_new_stream(state, name, id_)
            puts: list[IggyPut] = []
            if id_ is None:
                id_ = state.streams.free_id(state.counters.last_stream)
                puts.append(CountersPut(id_, state.counters.last_user))
            taken = {scope for scope, place in self._catalog.state.scopes.items() if place.present}
            scope = name_in_catalog(name, id_, taken)
            made = RegisteredIggyStream(id_, name, self._now_us())
            await self._registry.commit_puts([*puts, IggyStreamPut(scope, made)])
            # another face may have been quicker: it is the stream, all the same
            with contextlib.suppress(ScopeExistsError):
                await self._streams.create_scope(scope)
            return state.streams[scope]

    async def rename_stream(self, stream: Identifier, name: str) -> None:
        """Give a stream another name."""
        await self._topology.stream(stream)
        async with self._registry.turn() as state:
            scope, owner = self._require_stream(stream)
            key = state.streams.key_of(name)
            if key is not None and key != scope:
                raise IggyError(Reason.STREAM_NAME_EXISTS, f"stream {name!r} exists")
            if name != owner.name:
                now = replace(owner.stream, name=name)
                await self._registry.commit_puts([IggyStreamPut(scope, now)])

    async def delete_stream(self, stream: Identifier) -> list[str]:
        """Delete a stream with its topics; return the segments of their partitions."""
        topics = await self._topology.topics(stream)
        async with self._registry.turn():
            scope, _ = self._require_stream(stream)
            for topic in topics:
                await self._forget_all(topic.segments)
            with contextlib.suppress(NoSuchScopeError):
                await self._streams.delete_scope_with_all(scope)
            await self._registry.commit_puts([IggyStreamPut(scope, None)])
        segments = [segment for topic in topics for segment in topic.segments]
        return [segment for segment in segments if segment is not None]

    # Topics --------------------------------------------------------------------------------------

    async def create_topic(
        self,
        stream: Identifier,
        name: str,
        partitions: int,
        options: TopicOptions,
        id_: int | None,
    ) -> FoundTopic:
        """Create a topic with the number *id_*, or one of the server's choice."""
        await self._topology.topics(stream)
        async with self._registry.turn() as state:
            scope, owner = self._require_stream(stream)
            _check_new_topic(owner, name, id_)
            if id_ is None:
                id_ = owner.topics.free_id(owner.stream.last_topic)
                now = replace(owner.stream, last_topic=id_)
                await self._registry.commit_puts([IggyStreamPut(scope, now)])
            place = self._catalog.state.scopes.get(scope)
            streams = place.streams if place is not None else {}
            taken = {key for key, one in streams.items() if one.stream.status != "deleted"}
            catalog_name = name_in_catalog(name, id_, taken)
            topic = RegisteredTopic(id_, name, self._now_us(), options)
            await self._create_topic(scope, catalog_name, topic, partitions)
            found = self._topology.known_topic(state.streams[scope].id, id_)
        if found is None:  # another face has changed it at once
            found = await self._topology.topic(stream, id_)
        return found

    async def _create_topic(
        self, scope: str, catalog_name: str, topic: RegisteredTopic, partitions: int
    ) -> None:
        if not partitions:
            # a stream of the catalog has one segment at least, which is no partition then
            topic = replace(topic, seen=self._catalog.next_number(scope, catalog_name) + 1)
        await self._registry.commit_puts([TopicPut(scope, catalog_name, topic)])
        config = StreamConfig(min_segments=max(1, partitions))
        try:
            await self._streams.create(scope, catalog_name, config)
        except StreamExistsError:  # another face was quicker
            await self._registry.commit_puts([TopicPut(scope, catalog_name, None)])
            raise IggyError(
                Reason.TOPIC_NAME_EXISTS,
                f"topic {topic.name!r} exists: another client created it at the same time",
            ) from None
        stream = await self._streams.stream(scope, catalog_name)
        await self._registry.commit_puts(
            [TopicPut(scope, catalog_name, with_partitions_of(topic, stream))]
        )

    async def update_topic(
        self, stream: Identifier, topic: Identifier, name: str, options: TopicOptions
    ) -> None:
        """Give a topic another name, and other *options*: all that it has then."""
        await self._topology.topic(stream, topic)
        async with self._registry.turn():
            found = await self._require_topic(stream, topic)
            _, owner = self._require_stream(stream)
            key = owner.topics.key_of(name)
            if key is not None and key != found.stream:
                raise IggyError(Reason.TOPIC_NAME_EXISTS, f"topic {name!r} exists")
            now = replace(found.topic, name=name, options=options)
            if now != found.topic:
                await self._registry.commit_puts([TopicPut(found.scope, found.stream, now)])

    async def delete_topic(self, stream: Identifier, topic: Identifier) -> None:
        """Delete a topic."""
        await self._topology.topic(stream, topic)
        async with self._registry.turn():
            found = await self._require_topic(stream, topic)
            await self._forget_all(found.segments)
            with contextlib.suppress(NoSuchStreamError, NoSuchScopeError):
                await self._streams.seal(found.scope, found.stream)
                await self._streams.delete(found.scope, found.stream)
            await self._registry.commit_puts([TopicPut(found.scope, found.stream, None)])

    # Partitions ----------------------------------------------------------------------------------

    async def add_partitions(self, stream: Identifier, topic: Identifier, count: int) -> None:
        """Add *count* partitions to a topic."""
        await self._topology.topic(stream, topic)
        async with self._registry.turn():
            found = await self._require_topic(stream, topic)
            await self._streams.add_segments(found.scope, found.stream, count)
            catalog_stream = await self._streams.stream(found.scope, found.stream)
            now = with_partitions_of(found.topic, catalog_stream)
            await self._registry.commit_puts([TopicPut(found.scope, found.stream, now)])

    async def delete_partitions(
        self, stream: Identifier, topic: Identifier, count: int
    ) -> list[str]:
        """Delete the last *count* partitions of a topic, or all; return their segments.

        A segment that keys lead to is emptied and no partition any more: the catalog needs it for
        the clients of other faces.
        """
        await self._topology.topic(stream, topic)
        async with self._registry.turn():
            found = await self._require_topic(stream, topic)
            kept = max(0, len(found.topic.partitions) - count)
            doomed = found.topic.partitions[kept:]
            existing = {segment.id: segment for segment in found.there.segments}
            keyless = [id_ for id_ in doomed if id_ in existing and not has_keys(existing[id_])]
            names = {id_: segment_name(found.scope, found.stream, id_) for id_ in doomed}
            for id_ in doomed:
                if id_ in existing and has_keys(existing[id_]):
                    await self._empty(names[id_])
            await self._forget_all(names[id_] for id_ in keyless)
            if keyless:
                await self._streams.remove_segments(found.scope, found.stream, keyless)
            now = replace(found.topic, partitions=found.topic.partitions[:kept])
            await self._registry.commit_puts([TopicPut(found.scope, found.stream, now)])
            return list(names.values())

    # ---------------------------------------------------------------------------------------------

    def _require_stream(self, stream: Identifier) -> tuple[str, IggyStreamState]:
        if (found := self._topology.known_stream(stream)) is None:
            raise stream_not_found(stream)
        return found

    async def _require_topic(self, stream: Identifier, topic: Identifier) -> FoundTopic:
        """Return a topic, within a turn of the registry."""
        self._require_stream(stream)
        found = self._topology.known_topic(stream, topic)
        if found is None:  # another face may have scaled it at this moment
            await self._topology.commit_new(self._registry.state)
            found = self._topology.known_topic(stream, topic)
        if found is None:
            raise topic_not_found(topic)
        return found

    async def _forget_all(self, segments: Iterable[str | None]) -> None:
        for segment in segments:
            if segment is not None:
                await asyncio.sleep(0)  # there may be thousands
                await self._forget(segment)

    def _now_us(self) -> int:
        return self._clock.now_ms() * 1000


def _check_new_stream(state: IggyState, name: str, id_: int | None) -> None:
    if id_ == 0:
        raise IggyError(Reason.INVALID_STREAM_ID, "a stream has a number above 0")
    if id_ is not None and state.streams.key_of(id_) is not None:
        raise IggyError(Reason.STREAM_ID_EXISTS, f"stream {id_} exists")
    if state.streams.key_of(name) is not None:
        raise IggyError(Reason.STREAM_NAME_EXISTS, f"stream {name!r} exists")


def _check_new_topic(owner: IggyStreamState, name: str, id_: int | None) -> None:
    if id_ == 0:
        raise IggyError(Reason.INVALID_TOPIC_ID, "a topic has a number above 0")
    if id_ is not None and owner.topics.key_of(id_) is not None:
        raise IggyError(Reason.TOPIC_ID_EXISTS, f"topic {id_} exists")
    if owner.topics.key_of(name) is not None:
        raise IggyError(Reason.TOPIC_NAME_EXISTS, f"topic {name!r} exists")
