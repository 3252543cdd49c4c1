"""Finds files: scans all inputs at intervals, and soon after a directory has changed."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Final

from agent.inputs.files.paths.globs import DirectoryListing, FileInputs, MatchedFile
from agent.inputs.files.paths.watcher import Watcher
from agent.inputs.files.tail import Tailer
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.file_log import FileLog
from agent.sources.incarnation_search import Counting
from agent.sources.paths import path_from_text
from agent.sources.place import same_birth
from agent.sources.registry import SourceRegistry
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk

_FILES_A_TURN: Final = 256
"""Files per turn of the event loop."""

_SETTLING_SECONDS: Final = 0.05
"""Shortest pause between two scans: several changes of a directory lead to one scan."""

_PAUSE_FACTOR: Final = 20
"""The pause after a scan is at least this many times as long as the scan, up to `rescan_seconds`: a
scan during which the process was stopped, or a disk did not answer, was long, and cost nothing.
"""

_THOROUGH_SECONDS: Final = 60.0
"""Seconds between two scans that look at each file itself.

The others trust the directory where it has the name and inode of a file that is held open.
"""


class Scanner:
    """Scans the inputs and passes the files that match to the tailer."""

    def __init__(
        self,
        inputs: FileInputs,
        registry: SourceRegistry,
        tailer: Tailer,
        *,
        disk: Disk,
        clock: Clock,
        rescan_seconds: float,
        file_log: FileLog,
    ) -> None:
        """Scan every *rescan_seconds*, or earlier when `wake_event` is set."""
        self._inputs = inputs
        self._registry = registry
        self._tailer = tailer
        self._disk = disk
        self._clock = clock
        self._rescan_seconds = rescan_seconds
        self._file_log = file_log
        self._failed: dict[str, str] = {}  # paths that can't be listed or looked at, and why
        self._thorough_at = 0.0  # when the next scan looks at each file itself (s)
        self._start_counting = Counting.KNOWN
        # paths that no scan could look at since the start: what is found there was there before
        self._unseen = frozenset[str]()
        # True: the next scan is the first of these inputs, so what it finds was there before, too
        self._reloaded = False
        self.wake_event = asyncio.Event()  # set it to scan soon

    def reload(self, rescan_seconds: float) -> None:
        """Scan every *rescan_seconds* from now on, and soon: the inputs are others."""
        self._rescan_seconds = rescan_seconds
        self._thorough_at = 0.0
        self._reloaded = True
        if self._start_counting is Counting.MANY:
            self._registry.set_uncounted(True)
        self.wake_event.set()

    async def scan_inputs(
        self, counting: Counting = Counting.KNOWN, *, at_start: bool = False
    ) -> DirectoryListing:
        """Scan all inputs once, letting other tasks run; return what was listed.

        *counting* is for files never seen before; *at_start* says that it is the agent's first
        scan. Both hold for later scans, too, where the first one could not look, or had other
        inputs. Takes about 2 µs for an open file that is followed under its name, 6 µs once a
        minute and for a closed one.
        """
        if at_start:
            self._start_counting = counting
        all_new, self._reloaded = at_start or self._reloaded, False
        now, began_ms = self._clock.monotonic(), self._clock.now_ms()
        if now >= self._thorough_at:
            listing, self._thorough_at = DirectoryListing(self._disk), now + _THOROUGH_SECONDS
        else:
            listing = DirectoryListing(self._disk, self._tailer.is_followed)

        self._tailer.missing.on_scan_started()
        waiting: dict[int, list[CheckpointEntry]] = {}  # absent entries by inode
        for entry in self._registry.absent.values():
            if entry.ending is None and entry.ended is None:  # else it is the next generation's
                waiting.setdefault(entry.inode, []).append(entry)

        for number, (path, table) in enumerate(self._inputs.scan_paths(listing)):
            key = listing.key_of(path)
            if key is None or not self._tailer.is_unchanged(path, key):
                stat = listing.stat_or_none(path)
                if stat is not None and stat.is_file:
                    is_first = all_new or (bool(self._unseen) and self._is_unseen(path))
                    # else it may be a link
                    is_itself = key == (stat.device, stat.inode)
                    name = listing.real_path_of(path) if is_itself else None
                    matched = MatchedFile(path, table, stat, name, at_start=is_first)
                    self._on_match(matched, self._start_counting if is_first else counting, waiting)
            if number % _FILES_A_TURN == _FILES_A_TURN - 1:
                await asyncio.sleep(0)
        unseen = frozenset((*listing.errors, *listing.forbidden))
        compressed = self._tailer.compressed
        # what waits to be surveyed must be new to the next run, too
        if compressed is None or not compressed.is_busy:
            self._registry.note_scan(began_ms)
        self._tailer.missing.on_scan_ended(looked_everywhere=not unseen)
        if self._tailer.copies is not None and not listing.errors:
            self._tailer.copies.settled.on_scan_ended()

        self._warn_of_failed(listing)
        self._unseen = unseen if all_new else self._unseen & unseen
        if self._registry.uncounted and not self._unseen and not self._tailer.has_uncounted:
            self._registry.set_uncounted(False)
        return listing

    def _is_unseen(self, path: str) -> bool:
        return any(
            path == unseen or path.startswith(f"{unseen.rstrip('/')}/") for unseen in self._unseen
        )

    def _on_match(
        self, match: MatchedFile, counting: Counting, waiting: dict[int, list[CheckpointEntry]]
    ) -> None:
        """Pass *match* to the tailer unless it may be a file of the absent entries *waiting*, which
        are by inode.
        """
        # the configuration was reloaded during the scan: the next one finds the file
        if not self._inputs.has_table(match.settings):
            return
        # that file is left to the restorer: it is no new one
        for entry in waiting.get(match.stat.inode, ()):
            if self._may_be(entry, match):
                return
        self._tailer.on_match(match, counting)

    def _warn_of_failed(self, listing: DirectoryListing) -> None:
        """Log each directory that can't be listed or searched, once until it can."""
        failed = dict[str, str]()
        for message, errors in (
            ("directory can't be listed", listing.errors),
            ("file or directory can't be looked at", listing.forbidden),
        ):
            for path, error in sorted(errors.items()):
                failed[path] = error.strerror or str(error)
                if path not in self._failed:
                    self._file_log.warning(message, path, reason=failed[path])
        self._failed = failed

    def _may_be(self, entry: CheckpointEntry, match: MatchedFile) -> bool:
        """Return whether *match*, of the same inode, may be the file of an absent *entry*."""
        directory = os.path.dirname(self._disk.real_path(match.path))
        return same_birth(match.stat.birth_ns, entry.birth_ns) and self._disk.mount_point(
            directory
        ) == path_from_text(entry.mount)

    async def scan_repeatedly(self, watcher: Watcher, before_scan: Callable[[], None]) -> None:
        """Scan until cancelled; *before_scan* is called before each scan.

        *watcher* is told after each scan which directories to watch.
        """
        while True:
            self.wake_event.clear()
            began = self._clock.monotonic()
            before_scan()
            watcher.watch_directories((await self.scan_inputs()).listed_directories)
            took = self._clock.monotonic() - began

            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rescan_seconds):
                    await self.wake_event.wait()
            pause = min(took * _PAUSE_FACTOR, max(self._rescan_seconds, took))
            await self._clock.sleep(max(_SETTLING_SECONDS, pause))
