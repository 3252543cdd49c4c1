"""Reader groups: the configuration of each, and how far it reports to have read.

The readers of a group agree on who reads which segment from where through a stream of one segment,
the group's state. It is created and deleted with the group, and only clients understand its
content. A group that *subscribes* to its streams holds their retention back.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from logdrive.store.streams import key_ranges
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import BadNameError, GenerationError, NoSuchGroupError
from logdrive.store.streams.names import group_stream
from logdrive.store.streams.state import GroupPut, Put, ReaderGroup, StreamConfig, StreamPut


class ReaderGroups:
    """All reader groups of a store. Methods raise the errors that those of `Streams` do."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def create_group(self, scope: str, name: str, config: ReaderGroup) -> ReaderGroup:
        """Create a group and the stream of its state; return it, or the existing group."""
        stream = group_stream(name)
        async with self._catalog.turn() as state:
            existing = (await self._catalog.scope_state(scope)).groups.get(name)
            if existing is not None:
                return existing
            await self._check_streams(config)
            puts: list[Put] = [GroupPut(scope, name, config)]
            # clients may have created the stream before, by itself
            if state.stream_state(scope, stream) is None:
                puts.append(
                    self._catalog.creation_put(
                        scope, stream, StreamConfig(rollover_bytes=config.rollover_bytes)
                    )
                )
            await self._catalog.commit_puts(puts)
            return config

    async def get_group(self, scope: str, name: str) -> ReaderGroup:
        """Return a group. Raises `NoSuchGroupError`."""
        async with self._catalog.turn():
            return await self._require(scope, name)

    async def update_group(self, scope: str, name: str, config: ReaderGroup) -> ReaderGroup:
        """Replace a group's configuration, in a new generation; return the group.

        *config* must have the present id and generation, else it raises `GenerationError`. What the
        group has read is forgotten: it reports that again.
        """
        async with self._catalog.turn():
            group = await self._require(scope, name)
            _check_generation(group, config.id, config.generation)
            await self._check_streams(config)
            updated = replace(config, generation=group.generation + 1, read={})
            await self._catalog.commit_puts([GroupPut(scope, name, updated)])
            return updated

    async def delete_group(self, scope: str, name: str, group_id: str) -> None:
        """Delete a group and the stream of its state; it must have the id *group_id*."""
        async with self._catalog.turn() as state:
            group = await self._require(scope, name)
            _check_generation(group, group_id, group.generation)
            puts: list[Put] = [GroupPut(scope, name, None)]
            if (
                stream_state := state.stream_state(scope, stream := group_stream(name))
            ) is not None:
                puts.append(
                    StreamPut(scope, stream, replace(stream_state.stream, status="deleting"))
                )
            await self._catalog.commit_puts(puts)

    # Subscribers ---------------------------------------------------------------------------------

    async def list_subscribers(self, scope: str, stream: str) -> list[str]:
        """Return the groups that hold a stream's retention back, as scope/group, sorted."""
        async with self._catalog.turn() as state:
            await self._catalog.stream_state(scope, stream)
            return sorted(name for name, _ in state.subscribers(scope, stream))

    async def update_read_cut(
        self,
        subscriber: str,
        group_id: str,
        generation: int,
        scope: str,
        stream: str,
        cut: Mapping[int, int],
    ) -> None:
        """Record that *subscriber*, a scope/group, needs nothing of a stream before *cut*.

        *cut* has offsets by segment id. Raises `NoSuchGroupError`, `GenerationError`, and
        `PreconditionError` for a malformed cut.
        """
        group_scope, _, name = subscriber.partition("/")
        async with self._catalog.turn():
            stream_state = await self._catalog.stream_state(scope, stream)
            group = await self._require(group_scope, name)
            if not group.subscribes(scope, stream):
                raise NoSuchGroupError(
                    f"reader group {subscriber} does not hold {scope}/{stream} back"
                )
            _check_generation(group, group_id, generation)
            key_ranges.check_cut(stream_state.stream, cut)
            read = {**group.read, f"{scope}/{stream}": dict(cut)}
            await self._catalog.commit_puts(
                [GroupPut(group_scope, name, replace(group, read=read))]
            )

    async def _require(self, scope: str, name: str) -> ReaderGroup:
        group = (await self._catalog.scope_state(scope)).groups.get(name)
        if group is None:
            raise NoSuchGroupError(f"there is no reader group {scope}/{name}")
        return group

    async def _check_streams(self, config: ReaderGroup) -> None:
        """Raise `StreamsError` unless all streams of *config* exist, and there is one."""
        if not config.starting:
            raise BadNameError("a reader group reads at least one stream")
        for cut in (*config.starting, *config.ending):
            await self._catalog.stream_state(cut.scope, cut.stream)


def _check_generation(group: ReaderGroup, group_id: str, generation: int) -> None:
    if (group.id, group.generation) != (group_id, generation):
        raise GenerationError(
            f"the reader group is {group.id} of generation {group.generation} now"
        )
