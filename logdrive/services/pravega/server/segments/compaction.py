"""Compaction of tables in the background: the client whose change made it due does not wait."""

import asyncio

from logdrive.services.pravega.server.tables.tables import Tables


class Compactor:
    """Compacts tables, each in one task at most. Close it with the face."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def compact_if_due(self, segment: str) -> None:
        """Start compacting the table *segment* if it is due and not under way."""
        if segment not in self._tasks and self._tables.is_compaction_due(segment):
            task = self._tasks[segment] = asyncio.create_task(
                self._tables.compact_table(segment), name="pravega-compact"
            )
            task.add_done_callback(lambda _: self._tasks.pop(segment))

    async def close(self) -> None:
        """Cancel what is under way; the tables are compacted another time."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
