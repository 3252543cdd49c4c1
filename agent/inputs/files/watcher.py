"""Finds files: a scan of all inputs now and then, and soon after the kernel tells of a name that
came, moved or went.

watchdog watches *directories*, for such events only: growth would wake it thousands of times a
second, and is polled instead. Its thread does nothing but wake the loop.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import ObservedWatch

from agent.inputs.files.globs import FileInputs, Listing, MatchedFile
from agent.inputs.files.tail import Tailer
from agent.sources.checkpoint import CheckpointEntry
from agent.sources.file_log import FileLog
from agent.sources.incarnation_search import Counting
from agent.sources.paths import path_from_text
from agent.sources.place import same_birth
from agent.sources.registry import SourceRegistry
from logdrive.errors import os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk

_BATCH = 256
_MOST_WATCHES = 64
"""Each takes a thread of watchdog's and one of the 128 inotify instances of a user."""
_SETTLING_SECONDS = 0.05
_SHARE = 20
"""A scan takes at most one part in so many of the time."""
_THOROUGH_SECONDS = 60.0
"""So often a scan looks at files, too, that their directory says are those followed under their
names already.
"""


class Watcher(Protocol):
    """Tells of names that come and go."""

    def watch(self, directories: Sequence[str]) -> None:
        """Watch these directories and no others."""
        ...

    def close(self) -> None:
        """Watch nothing any more."""
        ...


class NoWatcher:
    """Where scans alone must do, as in virtual time, or where others have all that the kernel
    gives.
    """

    def watch(self, directories: Sequence[str]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class DirectoryWatcher:
    """watchdog's observer; *wake* is called on the loop, once for however many events."""

    _EVENTS: Sequence[type[FileSystemEvent]] = (
        FileCreatedEvent,
        FileMovedEvent,
        FileDeletedEvent,
        DirCreatedEvent,
        DirMovedEvent,
        DirDeletedEvent,
    )

    def __init__(self, wake: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._wake = wake
        self._observer = Observer()
        self._handler = _Wake(lambda: loop.call_soon_threadsafe(wake))
        self._watches: dict[str, ObservedWatch] = {}
        self._observer.start()

    def watch(self, directories: Sequence[str]) -> None:
        """Watch these directories, as many as is reasonable; what can't be watched is found by
        scans.

        Names that came before a watch began were not told, so a new one asks for another scan.
        """
        wanted = set(directories)
        for directory in [directory for directory in self._watches if directory not in wanted]:
            with contextlib.suppress(OSError, KeyError):
                self._observer.unschedule(self._watches.pop(directory))
        for directory in directories:
            if directory not in self._watches and len(self._watches) < _MOST_WATCHES:
                with contextlib.suppress(OSError):
                    self._watches[directory] = self._observer.schedule(
                        self._handler, directory, event_filter=list(self._EVENTS)
                    )
                    self._wake()

    def close(self) -> None:
        """Stop the observer and wait for its thread."""
        self._observer.stop()
        self._observer.join()


class _Wake(FileSystemEventHandler):
    def __init__(self, wake: Callable[[], Any]) -> None:
        self._wake = wake

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Pass on that something happened; the loop may be closed by now."""
        with contextlib.suppress(RuntimeError):
            self._wake()


class Scanner:
    """Scans the inputs and tells the tailer what there is."""

    def __init__(
        self,
        inputs: FileInputs,
        book: SourceRegistry,
        tailer: Tailer,
        *,
        disk: Disk,
        clock: Clock,
        rescan_seconds: float,
        file_log: FileLog,
    ) -> None:
        self._inputs = inputs
        self._book, self._tailer, self._disk, self._clock, self._file_log = (
            book,
            tailer,
            disk,
            clock,
            file_log,
        )
        self._rescan_seconds = rescan_seconds
        self._troubles: dict[str, str] = {}
        self._thorough_at = 0.0
        self.woken = asyncio.Event()

    async def scan(self, counting: Counting = Counting.KNOWN) -> Listing:
        """Look for files once, giving way to other tasks; *counting* is for those never met before.

        About 3 µs for a file that is followed under its name already, 10 µs once a minute.
        """
        now = self._clock.monotonic()
        if now >= self._thorough_at:
            listing, self._thorough_at = Listing(self._disk), now + _THOROUGH_SECONDS
        else:
            listing = Listing(self._disk, self._tailer.follows)
        self._tailer.missing.scan_begins()
        waiting: dict[int, list[CheckpointEntry]] = {}
        for entry in self._book.absent.values():
            waiting.setdefault(entry.inode, []).append(entry)
        for number, found in enumerate(self._inputs.scan(listing)):
            if not any(self._may_be(entry, found) for entry in waiting.get(found.stat.inode, ())):
                self._tailer.found(found, counting)
            if number % _BATCH == _BATCH - 1:
                await asyncio.sleep(0)
        self._tailer.missing.scan_ended()
        troubles = {
            directory: os_error_text(error) for directory, error in listing.troubles.items()
        }
        for directory in sorted(troubles.keys() - self._troubles.keys()):
            self._file_log.warning(
                "directory can't be listed", directory, reason=troubles[directory]
            )
        self._troubles = troubles
        return listing

    def _may_be(self, entry: CheckpointEntry, found: MatchedFile) -> bool:
        """Tell whether a file with the inode of an absent *entry* may be the one that is waited
        for, and no later or other one.
        """
        directory = os.path.dirname(self._disk.real_path(found.path))
        return same_birth(found.stat.birth_ns, entry.birth_ns) and self._disk.mount_point(
            directory
        ) == path_from_text(entry.mount)

    async def run(self, watcher: Watcher, retry: Callable[[], None]) -> None:
        """Scan again and again, for ever; *retry* is called before each scan."""
        while True:
            self.woken.clear()
            began = self._clock.monotonic()
            retry()
            watcher.watch((await self.scan()).listed)
            took = self._clock.monotonic() - began
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rescan_seconds):
                    await self.woken.wait()
            await self._clock.sleep(max(_SETTLING_SECONDS, took * _SHARE))
