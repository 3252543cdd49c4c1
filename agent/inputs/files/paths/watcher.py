"""Watches directories through the kernel (inotify, by watchdog) for files that come or go.

Only directories are watched, and only for names that are created, moved or deleted. Growth is
polled instead: its events would wake the agent thousands of times a second. watchdog's thread does
nothing but wake the event loop.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

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

from agent.inputs.files.paths.globs import DirectoryKey

_MOST_WATCHES: Final = 64
"""Limit on watched directories: each takes a thread, and one of a user's 128 inotify instances."""


class Watcher(Protocol):
    """Wakes the scanner when a name in a directory is created, moved or deleted."""

    def watch_directories(self, directories: Mapping[str, DirectoryKey]) -> None:
        """Watch *directories*, each with what tells it from others, and no more.

        Called after each scan.
        """
        ...

    def stop_watching(self) -> None:
        """Stop watching. Called once, at the agent's end."""
        ...


class NoWatcher:
    """Watches nothing, so that only scans find files.

    For virtual time, and for a kernel that has no inotify instance left.
    """

    def watch_directories(self, directories: Mapping[str, DirectoryKey]) -> None:
        """Do nothing."""

    def stop_watching(self) -> None:
        """Do nothing."""


class DirectoryWatcher:
    """Watches directories with watchdog's observer."""

    _EVENTS: Sequence[type[FileSystemEvent]] = (
        FileCreatedEvent,
        FileMovedEvent,
        FileDeletedEvent,
        DirCreatedEvent,
        DirMovedEvent,
        DirDeletedEvent,
    )

    def __init__(self, wake: Callable[[], None]) -> None:
        """Start the observer's thread. *wake* is called on the running loop, for each event."""
        loop = asyncio.get_running_loop()
        self._wake = wake
        self._observer = Observer()  # watchdog's thread
        self._handler = _WakeHandler(lambda: loop.call_soon_threadsafe(wake))
        self._watches: dict[DirectoryKey, ObservedWatch] = {}
        self._observer.start()

    def watch_directories(self, directories: Mapping[str, DirectoryKey]) -> None:
        """Watch *directories*, at most `_MOST_WATCHES`; scans find the files of the others.

        The kernel watches a directory, not its name: one that was made anew, mounted over, or
        linked to another, is watched anew. A new watch does not report names that were created
        before it, so it wakes the scanner.
        """
        wanted = {key: directory for directory, key in directories.items()}
        for key in [key for key in self._watches if key not in wanted]:
            with contextlib.suppress(OSError, KeyError):
                self._observer.unschedule(self._watches.pop(key))

        for key, directory in wanted.items():
            if key not in self._watches and len(self._watches) < _MOST_WATCHES:
                with contextlib.suppress(OSError):
                    self._watches[key] = self._observer.schedule(
                        self._handler,
                        os.path.realpath(directory),  # watchdog follows no link
                        event_filter=list(self._EVENTS),
                    )
                    self._wake()

    def stop_watching(self) -> None:
        """Stop the observer and wait for its thread."""
        self._observer.stop()
        self._observer.join()


class _WakeHandler(FileSystemEventHandler):
    """Calls *wake* on watchdog's thread for each event."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Wake the event loop."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._wake()
