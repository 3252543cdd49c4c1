"""All inputs of an agent that read by themselves, as one (`InputService`)."""

import asyncio
from collections.abc import Iterable, Sequence

from agent.inputs.service import InputService
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.readable import InputKind
from agent.sources.registry import SourceRegistry


class InputServices:
    """The inputs beside the files, of which an agent may have none."""

    def __init__(
        self, services: Sequence[InputService], registry: SourceRegistry, *, alone: bool
    ) -> None:
        """Start and end *services*; *alone* says that the agent follows no files beside them."""
        self._services = services
        self._registry = registry
        self._alone = alone

    async def begin(self, entries: Iterable[CheckpointEntry]) -> None:
        """Give each of *entries*, none of a file, to the input that it belongs to."""
        of_kind = {service.kind.value: list[CheckpointEntry]() for service in self._services}
        for entry in entries:
            if entry.input in of_kind:
                of_kind[entry.input].append(entry)
            elif entry.done is not None:
                self._registry.add_ended(entry)
            else:  # no table asks for its input any more: kept in the checkpoint, not read
                self._registry.add_absent(entry)

        for service in self._services:
            await service.begin(of_kind[service.kind.value])

    async def run(self) -> None:
        """Read until cancelled. Raises `StorageError` once an input can keep nothing more."""
        async with asyncio.TaskGroup() as group:
            for service in self._services:
                group.create_task(service.run(), name=f"agent-{service.kind.value}")

    async def wait_until_finished(self) -> None:
        """Return once nothing can come any more, of any input, and all is acknowledged.

        Never where an input may always have more, as files do.
        """
        if not self._alone or not self._services:
            await asyncio.Event().wait()
        for service in self._services:
            await service.finished.wait()

    async def stop_reading(self) -> None:
        """Read no more; return once what was read can't be lost."""
        for service in self._services:
            await service.stop_reading()

    async def close(self) -> None:
        """Release what is open, in the reverse order; inputs that never began have nothing."""
        for service in reversed(self._services):
            await service.close()


def is_of_file(entry: CheckpointEntry) -> bool:
    """Return whether a checkpoint's *entry* belongs to the input that follows files."""
    return entry.input == InputKind.FILES.value
