"""Basins: list, create, configure and delete. A basin is a scope of the store's catalog."""

import contextlib
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from logdrive.host.clock import Clock
from logdrive.services.s2.server.paging import page_of
from logdrive.services.s2.server.registry import Registry
from logdrive.services.s2.server.state import BasinPut, S2Basin, S2State
from logdrive.store.streams.errors import ScopeExistsError
from logdrive.store.streams.streams import Streams
from logdrive.wire.s2.configs import BasinConfig, BasinPatch
from logdrive.wire.s2.errors import (
    basin_deletion_pending,
    basin_not_found,
    resource_already_exists,
)
from logdrive.wire.s2.info import BasinInfo
from logdrive.wire.s2.names import is_basin
from logdrive.wire.s2.queries import ListQuery

ProvisionResult = Literal["created", "updated", "noop"]
"""What a request to create something, or to ensure that it is there, has done."""


class ProvisionedBasin(NamedTuple):
    """A basin that is there, and what the request has done."""

    info: BasinInfo
    result: ProvisionResult


class Basins:
    """The basins of one store. Methods raise `S2Error`, and what the store raises.

    *purge* is called when something is to be deleted in the background.
    """

    def __init__(
        self, registry: Registry, streams: Streams, *, clock: Clock, purge: Callable[[], None]
    ) -> None:
        self._registry = registry
        self._streams = streams
        self._clock = clock
        self._purge = purge

    async def page(
        self, query: ListQuery, sees: Callable[[str], bool]
    ) -> tuple[list[BasinInfo], bool]:
        """Return one page of the basins for which *sees*, and whether there are more."""
        scopes = await self._streams.scopes()
        known = self._registry.state.basins
        names = {name for name in (*scopes, *known) if is_basin(name) and sees(name)}
        page, more = page_of(names, query.prefix, query.start_after, query.limit)
        return [_info(name, known.get(name)) for name in page], more

    async def create(
        self, name: str, config: BasinConfig, *, location: str | None, token: str | None
    ) -> ProvisionedBasin:
        """Create a basin, unless the same request did so before."""
        async with self._registry.turn() as state:
            existing = await self._find(state, name)
            if existing is not None:
                if existing.deleted_ms is not None:
                    raise basin_deletion_pending(name)
                if token is None or (existing.request_token, existing.created_as) != (
                    token,
                    config,
                ):
                    raise resource_already_exists(f"basin {name!r} exists")
                return ProvisionedBasin(_info(name, existing), "noop")
            return await self._create(name, config, location, token)

    async def ensure(
        self, name: str, config: BasinConfig, *, location: str | None
    ) -> ProvisionedBasin:
        """Create a basin, or replace its configuration."""
        async with self._registry.turn() as state:
            existing = await self._find(state, name)
            if existing is None:
                return await self._create(name, config, location, None)
            if existing.deleted_ms is not None:
                raise basin_deletion_pending(name)
            if existing.config == config:
                return ProvisionedBasin(_info(name, existing), "noop")
            now = msgspec.structs.replace(existing, config=config)
            await self._registry.commit_puts([BasinPut(name, now)])
            return ProvisionedBasin(_info(name, now), "updated")

    async def config(self, name: str) -> BasinConfig:
        """Return the configuration of a basin."""
        return (await self.active(name)).config

    async def active(self, name: str) -> S2Basin:
        """Return a basin that is not being deleted."""
        basin = self._registry.state.basins.get(name)
        if basin is None:
            basin = await self._find(self._registry.state, name)
        if basin is None:
            raise basin_not_found(name)
        if basin.deleted_ms is not None:
            raise basin_deletion_pending(name)
        return basin

    async def reconfigure(self, name: str, patch: BasinPatch) -> BasinConfig:
        """Change the configuration of a basin, and return it; its streams stay as they are."""
        async with self._registry.turn():
            basin = await self.active(name)
            now = msgspec.structs.replace(basin, config=basin.config.patched(patch))
            await self._registry.commit_puts([BasinPut(name, now)])
            return now.config

    async def delete(self, name: str) -> None:
        """Begin to delete a basin with its streams; it may be under way already."""
        async with self._registry.turn() as state:
            basin = await self._find(state, name)
            if basin is None:
                raise basin_not_found(name)
            if basin.deleted_ms is None:
                now = msgspec.structs.replace(basin, deleted_ms=self._clock.now_ms())
                await self._registry.commit_puts([BasinPut(name, now)])
        self._purge()

    # ---------------------------------------------------------------------------------------------

    async def _create(
        self, name: str, config: BasinConfig, location: str | None, token: str | None
    ) -> ProvisionedBasin:
        basin = S2Basin(config, self._clock.now_ms(), location, token, config)
        await self._registry.commit_puts([BasinPut(name, basin)])
        # another face may have been quicker: it is a basin, all the same
        with contextlib.suppress(ScopeExistsError):
            await self._streams.create_scope(name)
        return ProvisionedBasin(_info(name, basin), "created")

    async def _find(self, state: S2State, name: str) -> S2Basin | None:
        """Return a basin; one that another face made has no configuration of its own."""
        if (basin := state.basins.get(name)) is not None:
            return basin
        if is_basin(name) and await self._streams.scope_exists(name):
            return S2Basin(BasinConfig(), 0)
        return None


def _info(name: str, basin: S2Basin | None) -> BasinInfo:
    if basin is None:
        return BasinInfo(name, 0)
    return BasinInfo(name, basin.created_ms, basin.location, basin.deleted_ms)
