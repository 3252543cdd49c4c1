"""Port to an input that reads by itself, beside the files: what the agent does with it."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.readable import InputKind


class InputService(Protocol):
    """An input with tasks of its own, from the agent's start to its end.

    The agent calls `begin`, runs `run` in a task, and calls `stop_reading` before it drains. In the
    end it cancels `run` and calls `close`.
    """

    @property
    def kind(self) -> InputKind:
        """The kind of its sources: it gets their entries of the checkpoint."""
        ...

    @property
    def finished(self) -> asyncio.Event:
        """Set once nothing more can come of it, and all that came is acknowledged."""
        ...

    async def begin(self, entries: Iterable[CheckpointEntry]) -> None:
        """Restore the sources of *entries*, and open what is read, before anything is sent.

        Raises `ConfigError` or `StorageError` if it can't be.
        """
        ...

    async def run(self) -> None:
        """Read until cancelled. Raises `StorageError` once nothing more can be kept."""
        ...

    async def stop_reading(self) -> None:
        """Read no more; return once what was read can't be lost."""
        ...

    async def close(self) -> None:
        """Release what is open; called once, after the last write of the checkpoint."""
        ...
