"""Writes the checkpoint: about once a second while something changes, and at the end."""

import asyncio
import contextlib
from typing import Any, Final

from agent.sources.checkpoint import Checkpoint, CheckpointFile
from agent.sources.registry import SourceRegistry
from logdrive.errors import StorageError, os_error_text
from logdrive.host.clock import Clock
from logdrive.host.executor import Executor

_SECONDS: Final = 1.0
_SHARE: Final = 20
"""Writing takes at most one part in so many of the time, however many sources there are."""
_DAY_MS: Final = 86_400_000


class Checkpointer:
    """Turns the book into the checkpoint.

    A write that fails is told and tried again: the checkpoint is only a cache.
    """

    def __init__(
        self,
        book: SourceRegistry,
        file: CheckpointFile,
        *,
        clock: Clock,
        executor: Executor,
        keep_days: float,
        log: Any,
    ) -> None:
        self._book, self._file, self._clock, self._executor, self._log = (
            book,
            file,
            clock,
            executor,
            log,
        )
        self._keep_ms = int(keep_days * _DAY_MS)
        self._trouble = ""  # that was told

    async def write(self) -> None:
        """Write it now. Raises `StorageError`."""
        now_ms = self._clock.now_ms()
        checkpoint = Checkpoint(
            agent=self._book.agent,
            written=now_ms,
            entries=self._book.entries(now_ms, self._keep_ms),
        )
        then, self._book.after_write = self._book.after_write, []
        self._book.changed = False
        try:
            await self._executor.run(self._file.write, checkpoint.snapshot())
        except OSError as error:
            self._book.changed = True
            self._book.after_write = then + self._book.after_write
            raise StorageError(
                f"{self._file.path} can't be written: {os_error_text(error)}"
            ) from error
        for each in then:
            each()

    async def run(self, stop: asyncio.Event) -> None:
        """Write until *stop*, and once more then.

        It must not be cancelled: a write would go on behind the next one's back.
        """
        while not stop.is_set():
            took = await self._write_if_changed()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(_SECONDS, took * _SHARE)):
                    await stop.wait()
        self._book.changed = True
        await self._write_if_changed()

    async def _write_if_changed(self) -> float:
        """Return how long it took."""
        began = self._clock.monotonic()
        if self._book.changed:
            try:
                await self.write()
                trouble = ""
            except StorageError as error:
                trouble = str(error)
            # once: it is tried each second, maybe on the disk that the log fills
            if trouble and trouble != self._trouble:
                self._log.warning("checkpoint not written: it is tried again", reason=trouble)
            elif self._trouble and not trouble:
                self._log.info("checkpoint written again")
            self._trouble = trouble
        return self._clock.monotonic() - began
