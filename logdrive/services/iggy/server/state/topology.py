"""Streams, topics and partitions as Iggy sees them: found, and registered where they are new.

A stream is a scope of the store's catalog, a topic a stream, a partition a segment. What another
face made is given its number and name durably before any client sees it. A partition keeps its
number for as long as its segment lasts, sealed or not: what scaling replaces can still be polled,
and what replaces it are further partitions.
"""

import contextlib
from collections.abc import Iterator

from msgspec.structs import replace

from logdrive.services.iggy.server.state.names import free_name, is_shown
from logdrive.services.iggy.server.state.records import (
    CountersPut,
    IggyPut,
    IggyStreamPut,
    RegisteredIggyStream,
    RegisteredTopic,
    TopicPut,
)
from logdrive.services.iggy.server.state.registry import IggyRegistry
from logdrive.services.iggy.server.state.rights import RightTarget
from logdrive.services.iggy.server.state.tables import IggyState, IggyStreamState
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import NoSuchScopeError, NoSuchStreamError
from logdrive.store.streams.state import CURRENT, Stream
from logdrive.store.streams.streams import Streams
from logdrive.wire.iggy.errors import partition_not_found, stream_not_found, topic_not_found
from logdrive.wire.iggy.identifiers import Identifier
from logdrive.wire.pravega.names import number_of_id, segment_name


class FoundTopic:
    """A topic: *owner* and *topic* are what is registered, *there* is the stream in the catalog.

    *segments* has the full name of each partition's segment, None where it is gone; *open* are the
    indices of those that messages can be sent to.
    """

    __slots__ = ("open", "owner", "scope", "segments", "stream", "there", "topic")

    def __init__(
        self,
        scope: str,
        stream: str,
        owner: RegisteredIggyStream,
        topic: RegisteredTopic,
        there: Stream,
    ) -> None:
        self.scope = scope
        self.stream = stream
        self.owner = owner
        self.topic = topic
        self.there = there
        until = {segment.id: segment.until for segment in there.segments}
        self.segments = tuple(
            segment_name(scope, stream, id_) if id_ in until else None for id_ in topic.partitions
        )
        self.open = tuple(
            index
            for index, id_ in enumerate(topic.partitions)
            if until.get(id_) == CURRENT and there.status == "active"
        )

    @property
    def key(self) -> tuple[str, str]:
        """The topic's scope and stream in the catalog."""
        return self.scope, self.stream

    @property
    def target(self) -> RightTarget:
        """What rights on the topic are asked for."""
        return RightTarget(self.scope, self.owner.id, self.stream, self.topic.id)

    @property
    def indices(self) -> list[int]:
        """The indices of the partitions that are there."""
        return [index for index, segment in enumerate(self.segments) if segment is not None]

    def segment(self, partition: int) -> str:
        """Return the full name of the partition's segment. Raises `IggyError`."""
        segment = self.segments[partition] if 0 <= partition < len(self.segments) else None
        if segment is None:
            raise partition_not_found(partition)
        return segment


class IggyTopology:
    """The streams and topics of one store as Iggy sees them.

    Methods raise `IggyError`, and what the store raises.
    """

    def __init__(self, registry: IggyRegistry, catalog: Catalog, streams: Streams) -> None:
        self._registry = registry
        self._catalog = catalog
        self._streams = streams
        # the last answers, by key; good for as long as they are made of the same records
        self._found: dict[tuple[str, str], FoundTopic] = {}

    # Finding -------------------------------------------------------------------------------------

    async def stream(self, stream: Identifier) -> IggyStreamState:
        """Return a stream, with its topics as far as they are registered."""
        if (found := self.known_stream(stream)) is not None:
            return found[1]
        # by number only what is registered can be meant
        if isinstance(stream, str):
            await self.register_all()
        if (found := self.known_stream(stream)) is None:
            raise stream_not_found(stream)
        return found[1]

    async def scope_of(self, stream: Identifier) -> str:
        """Return the scope that *stream* is."""
        await self.stream(stream)
        found = self.known_stream(stream)
        if found is None:
            raise stream_not_found(stream)
        return found[0]

    async def target(self, stream: Identifier) -> RightTarget:
        """Return what rights on a stream are asked for."""
        return RightTarget(await self.scope_of(stream), (await self.stream(stream)).id)

    def known_stream(self, stream: Identifier) -> tuple[str, IggyStreamState] | None:
        """Return a stream and its scope, as far as it is registered."""
        streams = self._registry.state.streams
        scope = streams.key_of(stream)
        if scope is None or not self._is_scope(scope):
            return None
        return scope, streams[scope]

    async def topic(self, stream: Identifier, topic: Identifier) -> FoundTopic:
        """Return a topic."""
        if (found := self.known_topic(stream, topic)) is not None:
            return found
        owner = await self.stream(stream)
        scope = self._registry.state.streams.key_of(owner.id)
        name = owner.topics.key_of(topic)
        if name is None and isinstance(topic, str):
            name = topic
        if scope is None or name is None:
            raise topic_not_found(topic)
        await self._register_topic(scope, name)
        if (found := self.known_topic(stream, topic)) is None:
            raise topic_not_found(topic)
        return found

    def known_topic(self, stream: Identifier, topic: Identifier) -> FoundTopic | None:
        """Return a topic, as far as it is registered and as it is in the catalog now."""
        known = self.known_stream(stream)
        if known is None:
            return None
        scope, owner = known
        name = owner.topics.key_of(topic)
        return self._known(scope, name, owner) if name is not None else None

    def _known(self, scope: str, name: str, owner: IggyStreamState) -> FoundTopic | None:
        topic, known = owner.topics[name], self._catalog.known_stream(scope, name)
        if known is None or known.stream.status == "deleting":
            return None
        there = known.stream
        found = self._found.get((scope, name))
        if found is None or found.there is not there or found.topic is not topic:
            if not is_same(topic, there) or not has_all_partitions(topic, there):
                return None
            found = self._found[scope, name] = FoundTopic(scope, name, owner.stream, topic, there)
        elif found.owner is not owner.stream:
            found = self._found[scope, name] = FoundTopic(scope, name, owner.stream, topic, there)
        return found

    def is_current(self, found: FoundTopic) -> bool:
        """Return whether the topic is the same as when it was *found*, and not deleted since."""
        now = self._registry.state.topic(*found.key)
        known = self._catalog.known_stream(*found.key)
        return now is not None and known is not None and is_same(now, known.stream)

    def _is_scope(self, scope: str) -> bool:
        known = self._catalog.state.scopes.get(scope)
        return known is not None and known.present

    # Listing -------------------------------------------------------------------------------------

    async def all_streams(self) -> list[tuple[str, IggyStreamState]]:
        """Return all streams and their scopes, by number."""
        await self.register_all()
        streams = self._registry.state.streams.items()
        shown = [(scope, owner) for scope, owner in streams if self._is_scope(scope)]
        return sorted(shown, key=lambda one: one[1].id)

    async def topics(self, stream: Identifier) -> list[FoundTopic]:
        """Return all topics of a stream, by number."""
        await self.register_all()
        known = self.known_stream(stream)
        if known is None:
            raise stream_not_found(stream)
        return list(self.known_topics(*known))

    def known_topics(self, scope: str, owner: IggyStreamState) -> Iterator[FoundTopic]:
        """Yield the topics of a stream, by number, as far as they are registered."""
        for name, _ in sorted(owner.topics.items(), key=lambda one: one[1].id):
            if (found := self._known(scope, name, owner)) is not None:
                yield found

    # Registering ---------------------------------------------------------------------------------

    async def register_all(self) -> None:
        """Register what other faces have made since, and forget what they have deleted."""
        # adopts streams that were made by creating their segments
        await self._streams.scopes()
        async with self._registry.turn() as state:
            await self.commit_new(state)

    async def commit_new(self, state: IggyState) -> None:
        """Register what is new; within a turn of the registry, with the catalog up to date."""
        if puts := list(self._puts_for_streams(state)):
            await self._registry.commit_puts(puts)
        puts = [put for scope in state.streams for put in self._puts_for_topics(state, scope)]
        if puts:
            await self._registry.commit_puts(puts)
        for key in [key for key in self._found if state.topic(*key) is None]:
            del self._found[key]

    async def _register_topic(self, scope: str, name: str) -> None:
        with contextlib.suppress(NoSuchScopeError, NoSuchStreamError):
            await self._streams.stream(scope, name)  # adopts it
        async with self._registry.turn() as state:
            if scope in state.streams and (puts := self._puts_for_topics(state, scope)):
                await self._registry.commit_puts(puts)

    def _puts_for_streams(self, state: IggyState) -> Iterator[IggyPut]:
        last = state.counters.last_stream
        names = {owner.name for owner in state.streams.values()}
        for scope, place in self._catalog.state.scopes.items():
            if not place.present or scope in state.streams or not is_shown(scope):
                continue
            last = state.streams.free_id(last)
            name = free_name(scope, names)
            names.add(name)
            yield IggyStreamPut(scope, RegisteredIggyStream(last, name))
        if last != state.counters.last_stream:
            yield CountersPut(last, state.counters.last_user)
        for scope in state.streams:
            if not self._is_scope(scope):
                yield IggyStreamPut(scope, None)

    def _puts_for_topics(self, state: IggyState, scope: str) -> list[IggyPut]:
        owner, place = state.streams[scope], self._catalog.state.scopes.get(scope)
        there = {
            name: stream.stream
            for name, stream in (
                place.streams if place is not None and place.present else {}
            ).items()
            if stream.stream.status in ("active", "sealed")
        }
        puts: list[IggyPut] = [
            TopicPut(scope, name, None)
            for name, topic in owner.topics.items()
            if name not in there or not is_same(topic, there[name], pending=True)
        ]
        gone = {put.stream for put in puts if isinstance(put, TopicPut)}
        last = owner.stream.last_topic
        names = {topic.name for name, topic in owner.topics.items() if name not in gone}
        for name, stream in there.items():
            topic = owner.topics.get(name) if name not in gone else None
            if topic is None:
                if not is_shown(name):
                    continue
                last = owner.topics.free_id(last)
                made = RegisteredTopic(last, free_name(name, names), stream.epochs[0] * 1000)
                names.add(made.name)
                puts.append(TopicPut(scope, name, with_partitions_of(made, stream)))
            elif topic.born_ms is None or not has_all_partitions(topic, stream):
                puts.append(TopicPut(scope, name, with_partitions_of(topic, stream)))
        if last != owner.stream.last_topic:
            puts.append(IggyStreamPut(scope, replace(owner.stream, last_topic=last)))
        return puts


def is_same(topic: RegisteredTopic, there: Stream, *, pending: bool = False) -> bool:
    """Return whether *there* is the stream that *topic* was registered for.

    A stream that was made under the same name later has another beginning, and other segments.
    With *pending*, a topic whose creation a crash has ended counts as that of any stream.
    """
    if topic.born_ms is None:
        return pending
    if not there.epochs or there.epochs[0] != topic.born_ms:
        return False
    return len(there.epochs) > 1 or any(
        number_of_id(segment.id) < topic.seen for segment in there.segments
    )


def has_all_partitions(topic: RegisteredTopic, there: Stream) -> bool:
    """Return whether nothing is to be added to the topic's partitions, or to be taken off."""
    if topic.seen != there.next_number:
        return False
    last = topic.partitions[-1] if topic.partitions else None
    return last is None or any(segment.id == last for segment in there.segments)


def with_partitions_of(topic: RegisteredTopic, there: Stream) -> RegisteredTopic:
    """Return *topic* with a partition for each segment of *there* that was not looked at before.

    Partitions at the end whose segments are gone are taken off: a crash ended their deletion.
    """
    ids = {segment.id for segment in there.segments}
    kept = list(topic.partitions)
    while kept and kept[-1] not in ids:
        kept.pop()
    new = sorted((id_ for id_ in ids if number_of_id(id_) >= topic.seen), key=number_of_id)
    return replace(
        topic,
        partitions=(*kept, *new),
        seen=there.next_number,
        born_ms=there.epochs[0],
    )
