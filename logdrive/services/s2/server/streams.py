"""Streams of S2: list, find, create, configure and delete them.

Each is one segment of the store, and a stream of the store's catalog, or one segment of several.
"""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from logdrive.host.clock import Clock
from logdrive.services.s2.server.basins import Basins, ProvisionResult
from logdrive.services.s2.server.paging import page_of
from logdrive.services.s2.server.registry import Registry
from logdrive.services.s2.server.state import RegisteredStream, S2Basin, S2StreamPut
from logdrive.services.s2.server.stream_names import (
    catalog_stream,
    is_whole,
    numbered_name,
    segment_of,
    shown_names,
)
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import (
    NoSuchScopeError,
    NoSuchStreamError,
    ScopeExistsError,
    StreamExistsError,
)
from logdrive.store.streams.names import is_plain_name
from logdrive.store.streams.state import Stream
from logdrive.store.streams.state import StreamConfig as CatalogConfig
from logdrive.store.streams.streams import Streams
from logdrive.wire.pravega.names import segment_id, segment_name
from logdrive.wire.s2.configs import (
    Cipher,
    ResolvedStreamConfig,
    RetentionPeriod,
    S2StreamConfig,
    StreamPatch,
)
from logdrive.wire.s2.errors import (
    invalid,
    resource_already_exists,
    stream_deletion_pending,
    stream_not_found,
)
from logdrive.wire.s2.info import StreamInfo
from logdrive.wire.s2.queries import ListQuery

FOREIGN_CONFIG = ResolvedStreamConfig(retention=RetentionPeriod(None))
"""The configuration of a stream that another face made: S2's default would cut it."""


class FoundStream(NamedTuple):
    """A stream that can be read and appended to; *segment* is its segment's full name."""

    basin: str
    name: str
    segment: str
    config: ResolvedStreamConfig
    cipher: Cipher | None


class ProvisionedStream(NamedTuple):
    """A stream that is there, and what the request has done."""

    info: StreamInfo
    result: ProvisionResult


class S2Streams:
    """The streams of one store as S2 sees them.

    Methods raise `S2Error`, and what the store raises. *purge* is called when something is to be
    deleted in the background.
    """

    def __init__(
        self,
        registry: Registry,
        basins: Basins,
        catalog: Catalog,
        streams: Streams,
        *,
        clock: Clock,
        purge: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._basins = basins
        self._catalog = catalog
        self._streams = streams
        self._clock = clock
        self._purge = purge

    # Finding -------------------------------------------------------------------------------------

    def known(self, basin: str, name: str) -> FoundStream | None:
        """Return a stream, as far as it is known without waiting."""
        state = self._registry.state
        stream, owner = state.stream(basin, name), state.basins.get(basin)
        if any(one is not None and one.deleted_ms is not None for one in (stream, owner)):
            return None
        inside, number = _place_of(name, stream)
        there = self._catalog.known_stream(basin, inside) if inside is not None else None
        if inside is None or there is None or there.stream.status == "deleting":
            return None
        return _found(basin, name, stream, inside, there.stream, number)

    async def find(self, basin: str, name: str) -> FoundStream:
        """Return a stream."""
        if (found := self.known(basin, name)) is not None:
            return found
        await self._basins.active(basin)
        found = await self._find(basin, name)
        if found is None:
            raise stream_not_found(name)
        return found

    async def find_or_create(
        self, basin: str, name: str, given: S2StreamConfig, *, to_append: bool
    ) -> FoundStream:
        """Return a stream; create it with *given* if the basin says so for appends, or reads."""
        if (found := self.known(basin, name)) is not None:
            return found
        owner = await self._basins.active(basin)
        if (found := await self._find(basin, name)) is not None:
            return found
        config = owner.config
        if not (config.create_stream_on_append if to_append else config.create_stream_on_read):
            raise stream_not_found(name)
        async with self._registry.turn():
            owner = await self._basins.active(basin)
            # another request may have been quicker
            if await self._find(basin, name) is None:
                await self._create(basin, name, given, owner, None)
        return await self.find(basin, name)

    async def _find(self, basin: str, name: str) -> FoundStream | None:
        stream = self._registry.state.stream(basin, name)
        if stream is not None and stream.deleted_ms is not None:
            raise stream_deletion_pending(name)
        inside, number = _place_of(name, stream)
        if inside is None:
            return None
        try:
            there = await self._streams.stream(basin, inside)
        except (NoSuchStreamError, NoSuchScopeError):
            return None
        if there.status == "deleting":
            raise stream_deletion_pending(name)
        return _found(basin, name, stream, inside, there, number)

    # Listing -------------------------------------------------------------------------------------

    async def page(
        self, basin: str, query: ListQuery, prefix: str, sees: Callable[[str], bool]
    ) -> tuple[list[StreamInfo], bool]:
        """Return one page of a basin's streams for which *sees*, and whether there are more.

        *prefix* is put before what *query* asks for, and taken off the names.
        """
        await self._basins.active(basin)
        registered = self._registry.state.streams.get(basin, {})
        try:
            inside = await self._streams.streams(basin)
        except NoSuchScopeError:
            inside = []
        names = {
            name
            for name, stream in registered.items()
            if stream.deleted_ms is not None or self.known(basin, name) is not None
        }
        for name in filter(is_plain_name, inside):
            if (there := self._catalog.known_stream(basin, name)) is not None:
                names.update(shown_names(name, there.stream))
        page, more = page_of(
            (name for name in names if sees(name)),
            prefix + query.prefix,
            prefix + query.start_after,
            query.limit,
        )
        return [_info(name.removeprefix(prefix), registered.get(name)) for name in page], more

    # Changing ------------------------------------------------------------------------------------

    async def create(
        self, basin: str, name: str, given: S2StreamConfig, *, token: str | None
    ) -> ProvisionedStream:
        """Create a stream, unless the same request did so before."""
        async with self._registry.turn() as state:
            owner = await self._basins.active(basin)
            if await self._find(basin, name) is None:
                return await self._create(basin, name, given, owner, token)
            stream = state.stream(basin, name)
            if (
                stream is None
                or token is None
                or (stream.request_token, stream.created_as) != (token, given)
            ):
                raise resource_already_exists(f"stream {name!r} exists")
            return ProvisionedStream(_info(name, stream), "noop")

    async def ensure(self, basin: str, name: str, given: S2StreamConfig) -> ProvisionedStream:
        """Create a stream, or replace its configuration by *given* and the basin's defaults."""
        async with self._registry.turn() as state:
            owner = await self._basins.active(basin)
            found = await self._find(basin, name)
            if found is None:
                return await self._create(basin, name, given, owner, None)
            config = given.resolved(owner.config.default_stream_config)
            if config == found.config:
                return ProvisionedStream(_info(name, state.stream(basin, name)), "noop")
            stream = await self._configure(found, config)
            return ProvisionedStream(_info(name, stream), "updated")

    async def reconfigure(self, basin: str, name: str, patch: StreamPatch) -> ResolvedStreamConfig:
        """Change the configuration of a stream, and return it."""
        async with self._registry.turn():
            owner = await self._basins.active(basin)
            found = await self._find(basin, name)
            if found is None:
                raise stream_not_found(name)
            given = found.config.given().patched(patch)
            config = given.resolved(owner.config.default_stream_config)
            if config != found.config:
                await self._configure(found, config)
            return config

    async def delete(self, basin: str, name: str) -> None:
        """Begin to delete a stream; it may be under way already."""
        async with self._registry.turn() as state:
            await self._basins.active(basin)
            stream = state.stream(basin, name)
            if stream is None or stream.deleted_ms is None:
                found = await self._find(basin, name)
                if found is None:
                    raise stream_not_found(name)
                now = self._registered(found)
                if (numbered := numbered_name(name)) and numbered.stream == now.stream:
                    raise invalid("it is one segment of a stream that was not made through S2")
                now = msgspec.structs.replace(now, deleted_ms=self._clock.now_ms())
                await self._registry.commit_puts([S2StreamPut(basin, name, now)])
        self._purge()

    # ---------------------------------------------------------------------------------------------

    async def _create(
        self, basin: str, name: str, given: S2StreamConfig, owner: S2Basin, token: str | None
    ) -> ProvisionedStream:
        inside = catalog_stream(name)
        number = self._catalog.next_number(basin, inside)
        stream = RegisteredStream(
            given.resolved(owner.config.default_stream_config),
            inside,
            segment_name(basin, inside, segment_id(number, 0)),
            self._clock.now_ms(),
            owner.config.stream_cipher,
            token,
            given,
        )
        await self._registry.commit_puts([S2StreamPut(basin, name, stream)])
        try:
            await self._create_in_catalog(basin, inside)
        except StreamExistsError:
            if inside == name:  # another face was quicker
                await self._registry.commit_puts([S2StreamPut(basin, name, None)])
                raise resource_already_exists(f"stream {name!r} exists") from None
        segment = segment_of(basin, inside, await self._streams.stream(basin, inside), None)
        if segment is not None and segment != stream.segment:
            stream = msgspec.structs.replace(stream, segment=segment)
            await self._registry.commit_puts([S2StreamPut(basin, name, stream)])
        return ProvisionedStream(_info(name, stream), "created")

    async def _create_in_catalog(self, basin: str, stream: str) -> None:
        try:
            await self._streams.create(basin, stream, CatalogConfig())
        except NoSuchScopeError:  # a crash, or another face, left the basin without one
            with contextlib.suppress(ScopeExistsError):
                await self._streams.create_scope(basin)
            await self._streams.create(basin, stream, CatalogConfig())

    async def _configure(
        self, found: FoundStream, config: ResolvedStreamConfig
    ) -> RegisteredStream:
        stream = msgspec.structs.replace(self._registered(found), config=config)
        await self._registry.commit_puts([S2StreamPut(found.basin, found.name, stream)])
        return stream

    def _registered(self, found: FoundStream) -> RegisteredStream:
        """Return what the registry has of a stream, or would have of one that others made."""
        stream = self._registry.state.stream(found.basin, found.name)
        if stream is not None and stream.segment == found.segment:
            return stream
        numbered = numbered_name(found.name)
        inside = numbered.stream if numbered is not None else found.name
        return RegisteredStream(found.config, inside, found.segment, 0, found.cipher)


def has_segment(there: Stream, basin: str, stream: RegisteredStream) -> bool:
    """Return whether the segment of *stream* is still one of *there*, its stream in the catalog."""
    return any(
        segment_name(basin, stream.stream, segment.id) == stream.segment
        for segment in there.segments
    )


def _place_of(name: str, stream: RegisteredStream | None) -> tuple[str | None, int | None]:
    """Return where the catalog has a stream: the name there, None if it can't be there, and the
    segment's number if it is one of several. *stream* is what the registry has of it.
    """
    if stream is not None:
        return stream.stream, None
    if (numbered := numbered_name(name)) is not None:
        return numbered
    return (name if is_plain_name(name) else None), None


def _found(
    basin: str,
    name: str,
    stream: RegisteredStream | None,
    inside: str,
    there: Stream,
    number: int | None,
) -> FoundStream | None:
    """Return the stream called *name*, which the catalog has as *inside*; None if it has not.

    *stream* is what the registry has of it. That is of no use where another face has deleted the
    stream and made it anew, or has scaled it: then each segment is a stream, called by its number.
    """
    is_split = inside == name and not is_whole(there)
    if stream is not None and not is_split and has_segment(there, basin, stream):
        return FoundStream(basin, name, stream.segment, stream.config, stream.cipher)
    segment = segment_of(basin, inside, there, number)
    return FoundStream(basin, name, segment, FOREIGN_CONFIG, None) if segment is not None else None


def _info(name: str, stream: RegisteredStream | None) -> StreamInfo:
    if stream is None:
        return StreamInfo(name, 0)
    return StreamInfo(name, stream.created_ms, stream.deleted_ms, stream.cipher)
