"""Checkpointer: writes the checkpoint about once a second while it changes, and at the end."""

import asyncio
import contextlib
from typing import Any, Final

from agent.sources.checkpoint.file import CheckpointFile, encode_checkpoint
from agent.sources.registry import SourceRegistry
from logdrive.errors import StorageError, os_error_text
from logdrive.host.clock import Clock
from logdrive.host.executor import Executor

_SECONDS: Final = 1.0
"""Shortest time between two writes."""
_SHARE: Final = 20
"""Writing takes at most this part of the time (a twentieth), however many sources there are."""
_DAY_MS: Final = 86_400_000


class Checkpointer:
    """Writes the registry to the checkpoint file.

    A write that fails is logged and tried again: the checkpoint is only a cache. Ended sources are
    left out after *keep_days*.
    """

    def __init__(
        self,
        registry: SourceRegistry,
        file: CheckpointFile,
        *,
        clock: Clock,
        executor: Executor,
        keep_days: float,
        log: Any,
    ) -> None:
        self._registry = registry
        self._file = file
        self._clock = clock
        self._executor = executor
        self.keep_ended(keep_days)
        self._log = log
        self._trouble = ""  # why the last write failed, as logged; "" if it did not

    def keep_ended(self, days: float) -> None:
        """Keep ended sources for so many days."""
        self._keep_ms = int(days * _DAY_MS)

    async def write_now(self) -> None:
        """Write the checkpoint. Raises `StorageError`."""
        now_ms = self._clock.now_ms()
        content = encode_checkpoint(
            self._registry.agent,
            now_ms,
            self._registry.checkpoint_entries(now_ms, self._keep_ms),
            self._registry.copies,
            scanned=self._registry.scanned_ms,
            uncounted=self._registry.uncounted,
        )
        # what changes from here on belongs to the next write
        actions = self._registry.begin_write()
        try:
            await self._executor.run(self._file.write_snapshot, content)
        except OSError as error:
            self._registry.on_write_failed(actions)
            raise StorageError(
                f"{self._file.path} can't be written: {os_error_text(error)}"
            ) from error
        for action in actions:
            action()

    async def run(self, stop: asyncio.Event) -> None:
        """Write until *stop* is set, and once more then.

        Do not cancel it: a write that is under way in a thread would go on beside the next one.
        """
        while not stop.is_set():
            took = await self._write_if_changed()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(_SECONDS, took * _SHARE)):
                    await stop.wait()

        self._registry.mark_changed()
        await self._write_if_changed()

    async def _write_if_changed(self) -> float:
        """Write the checkpoint unless it is up to date; return the seconds that this took."""
        began = self._clock.monotonic()
        if self._registry.changed:
            try:
                await self.write_now()
                trouble = ""
            except StorageError as error:
                trouble = str(error)

            # logged once, not each second: the log may be on the disk that is full
            if trouble and trouble != self._trouble:
                self._log.warning("checkpoint not written: it is tried again", reason=trouble)
            elif self._trouble and not trouble:
                self._log.info("checkpoint written again")
            self._trouble = trouble
        return self._clock.monotonic() - began
