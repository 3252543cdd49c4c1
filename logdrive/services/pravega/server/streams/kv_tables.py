"""Key-value tables of Pravega's clients: each is some table segments among which they spread the
keys themselves.

What is in them is nobody's business here: clients read and change table segments at the face
(`logdrive.store.tables`).
"""

from typing import Final

from msgspec.structs import replace

from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import MapExistsError, NoSuchMapError, PreconditionError
from logdrive.store.streams.names import kv_table_segment
from logdrive.store.streams.state import KeyValueTable, MapPut

MAX_PARTITIONS: Final = 1000


class KeyValueTables:
    """All key-value tables of a store. Methods raise what those of `Streams` do."""

    def __init__(self, catalogue: Catalog) -> None:
        self._catalogue = catalogue

    async def create(self, scope: str, name: str, asked: KeyValueTable) -> None:
        """Make a table as *asked*."""
        kv_table_segment(scope, name, 0)
        longest = TableLimits().fixed_key
        if (
            not 1 <= asked.partitions <= MAX_PARTITIONS
            or asked.primary < 1
            or not 0 <= asked.secondary <= longest - asked.primary
        ):
            raise PreconditionError(
                f"a table has 1 to {MAX_PARTITIONS} partitions, and keys of 1 to {longest} bytes"
            )
        async with self._catalogue.turn():
            before = (await self._catalogue.scope_state(scope)).maps.get(name)
            if before is not None and before.status != "deleted":
                raise MapExistsError(f"key-value table {scope}/{name} exists")
            first = before.first + before.partitions if before is not None else 0
            if self._catalogue.store.info(kv_table_segment(scope, name, first)) is not None:
                raise MapExistsError(f"clients of the face have a table {scope}/{name}")
            await self._catalogue.commit_puts(
                [MapPut(scope, name, replace(asked, first=first, status="active"))]
            )

    async def delete(self, scope: str, name: str) -> None:
        """Remove a table with all that it has."""
        async with self._catalogue.turn():
            found = await self._found(scope, name)
            await self._catalogue.commit_puts(
                [MapPut(scope, name, replace(found, status="deleting"))]
            )

    async def found(self, scope: str, name: str) -> KeyValueTable:
        """Return a table as it was asked for."""
        async with self._catalogue.turn():
            return await self._found(scope, name)

    async def names(self, scope: str) -> list[str]:
        """Return the tables of a scope."""
        async with self._catalogue.turn():
            maps = (await self._catalogue.scope_state(scope)).maps
            return sorted(name for name, found in maps.items() if found.status != "deleted")

    async def _found(self, scope: str, name: str) -> KeyValueTable:
        found = (await self._catalogue.scope_state(scope)).maps.get(name)
        if found is None or found.status == "deleted":
            raise NoSuchMapError(f"there is no key-value table {scope}/{name}")
        return found
