"""Key-value tables: each is a set of table segments, among which clients distribute the keys.

Only their names and configuration are kept here. Clients read and change the entries at the segment
store (`logdrive.services.pravega.server.tables`).
"""

from typing import Final

from msgspec.structs import replace

from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import MapExistsError, NoSuchMapError, PreconditionError
from logdrive.store.streams.names import kv_table_segment
from logdrive.store.streams.state import KeyValueTable, MapPut

MAX_PARTITIONS: Final = 1000
"""Limit on the segments of one table."""


class KeyValueTables:
    """All key-value tables of a store. Methods raise the errors that those of `Streams` do."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def create_kv_table(self, scope: str, name: str, config: KeyValueTable) -> None:
        """Create a table with the partitions and key lengths of *config*.

        Raises `PreconditionError` for a *config* out of range, `MapExistsError`, `BadNameError`.
        """
        kv_table_segment(scope, name, 0)  # checks the name
        longest = TableLimits().fixed_key
        if (
            not 1 <= config.partitions <= MAX_PARTITIONS
            or config.primary < 1
            or not 0 <= config.secondary <= longest - config.primary
        ):
            raise PreconditionError(
                f"a table has 1 to {MAX_PARTITIONS} partitions, and keys of 1 to {longest} bytes"
            )
        async with self._catalog.turn():
            before = (await self._catalog.scope_state(scope)).maps.get(name)
            if before is not None and before.status != "deleted":
                raise MapExistsError(f"key-value table {scope}/{name} exists")
            # the segment numbers of a deleted table of that name are not used again
            first = before.first + before.partitions if before is not None else 0
            if self._catalog.store.info(kv_table_segment(scope, name, first)) is not None:
                raise MapExistsError(f"there are table segments of the name {scope}/{name}")
            await self._catalog.commit_puts(
                [MapPut(scope, name, replace(config, first=first, status="active"))]
            )

    async def delete_kv_table(self, scope: str, name: str) -> None:
        """Delete a table and its entries. Raises `NoSuchMapError`."""
        async with self._catalog.turn():
            table = await self._require(scope, name)
            await self._catalog.commit_puts(
                [MapPut(scope, name, replace(table, status="deleting"))]
            )

    async def get_kv_table(self, scope: str, name: str) -> KeyValueTable:
        """Return a table's configuration. Raises `NoSuchMapError`."""
        async with self._catalog.turn():
            return await self._require(scope, name)

    async def list_kv_tables(self, scope: str) -> list[str]:
        """Return the names of a scope's tables, sorted."""
        async with self._catalog.turn():
            maps = (await self._catalog.scope_state(scope)).maps
            return sorted(name for name, table in maps.items() if table.status != "deleted")

    async def _require(self, scope: str, name: str) -> KeyValueTable:
        table = (await self._catalog.scope_state(scope)).maps.get(name)
        if table is None or table.status == "deleted":
            raise NoSuchMapError(f"there is no key-value table {scope}/{name}")
        return table
