"""Shortens the logs of tables beside what clients ask: whoever changed one last waits for nothing,
nor need it stay.
"""

import asyncio

from logdrive.services.pravega.server.tables.tables import Tables


class Compactor:
    """At most one task a table; close it with the face."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def compact_if_due(self, segment: str) -> None:
        """Begin with *segment* if that is due."""
        if segment not in self._tasks and self._tables.is_compaction_due(segment):
            task = self._tasks[segment] = asyncio.create_task(
                self._tables.compact_table(segment), name="pravega-compact"
            )
            task.add_done_callback(lambda _: self._tasks.pop(segment))

    async def close(self) -> None:
        """End what is under way; it is begun anew another time."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
