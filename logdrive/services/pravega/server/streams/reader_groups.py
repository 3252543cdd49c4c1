"""Reader groups of Pravega's clients: what each is to read, and how far it says it has read.

What its readers agree upon, who reads which segment from where, stands in a stream of one segment,
which is made and goes with the group and which only they understand. A group that *subscribes* to
its streams holds their retention back.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import BadNameError, GenerationError, NoSuchGroupError
from logdrive.store.streams.names import group_stream
from logdrive.store.streams.state import GroupPut, Put, ReaderGroup, StreamConfig, StreamPut


class ReaderGroups:
    """All reader groups of a store. Methods raise what those of `Streams` do."""

    def __init__(self, catalogue: Catalog) -> None:
        self._catalogue = catalogue

    async def create(self, scope: str, name: str, asked: ReaderGroup) -> ReaderGroup:
        """Make a group as *asked*, with the stream of its state; return it, or the one that is
        there.
        """
        stream = group_stream(name)
        async with self._catalogue.turn() as state:
            found = (await self._catalogue.scope_state(scope)).groups.get(name)
            if found is not None:
                return found
            await self._check(asked)
            puts: list[Put] = [GroupPut(scope, name, asked)]
            if state.stream_state(scope, stream) is None:
                puts.append(
                    self._catalogue.creation_put(
                        scope, stream, StreamConfig(rollover_bytes=asked.rollover_bytes)
                    )
                )
            await self._catalogue.commit_puts(puts)
            return asked

    async def found(self, scope: str, name: str) -> ReaderGroup:
        """Return a group."""
        async with self._catalogue.turn():
            return await self._found(scope, name)

    async def update(self, scope: str, name: str, asked: ReaderGroup) -> ReaderGroup:
        """Let a group, which *asked* must know as it is, be as asked, in a new generation.

        It has to say again what it has read.
        """
        async with self._catalogue.turn():
            found = await self._found(scope, name)
            _check_same(found, asked.id, asked.generation)
            await self._check(asked)
            updated = replace(asked, generation=found.generation + 1, read={})
            await self._catalogue.commit_puts([GroupPut(scope, name, updated)])
            return updated

    async def delete(self, scope: str, name: str, group_id: str) -> None:
        """Remove a group and the stream of its state."""
        async with self._catalogue.turn() as state:
            found = await self._found(scope, name)
            _check_same(found, group_id, found.generation)
            puts: list[Put] = [GroupPut(scope, name, None)]
            if (place := state.stream_state(scope, stream := group_stream(name))) is not None:
                puts.append(StreamPut(scope, stream, replace(place.stream, status="deleting")))
            await self._catalogue.commit_puts(puts)

    # Subscribers ---------------------------------------------------------------------------------

    async def subscribers(self, scope: str, stream: str) -> list[str]:
        """Return the groups, as scope/group, that hold a stream's retention back."""
        async with self._catalogue.turn() as state:
            await self._catalogue.stream_state(scope, stream)
            return sorted(name for name, _ in state.subscribers(scope, stream))

    async def has_read(
        self,
        subscriber: str,
        group_id: str,
        generation: int,
        scope: str,
        stream: str,
        cut: Mapping[int, int],
    ) -> None:
        """Take note that *subscriber*, a scope/group, needs nothing of a stream before *cut*."""
        group_scope, _, name = subscriber.partition("/")
        async with self._catalogue.turn():
            place = await self._catalogue.stream_state(scope, stream)
            found = await self._found(group_scope, name)
            if not found.subscribes(scope, stream):
                raise NoSuchGroupError(
                    f"reader group {subscriber} does not hold {scope}/{stream} back"
                )
            _check_same(found, group_id, generation)
            layout.check_cut(place.stream, cut)
            read = {**found.read, f"{scope}/{stream}": dict(cut)}
            await self._catalogue.commit_puts(
                [GroupPut(group_scope, name, replace(found, read=read))]
            )

    # ---------------------------------------------------------------------------------------------

    async def _found(self, scope: str, name: str) -> ReaderGroup:
        found = (await self._catalogue.scope_state(scope)).groups.get(name)
        if found is None:
            raise NoSuchGroupError(f"there is no reader group {scope}/{name}")
        return found

    async def _check(self, asked: ReaderGroup) -> None:
        """Raise where what a group is to read is not there."""
        if not asked.starting:
            raise BadNameError("a reader group reads at least one stream")
        for cut in (*asked.starting, *asked.ending):
            await self._catalogue.stream_state(cut.scope, cut.stream)


def _check_same(found: ReaderGroup, group_id: str, generation: int) -> None:
    if (found.id, found.generation) != (group_id, generation):
        raise GenerationError(
            f"the reader group is {found.id} of generation {found.generation} now"
        )
