"""Opens and closes followed files within the limits on open files.

There are two limits. Above `max_open_files`, files that are idle are closed; they are looked at by
name from then on. Above *handles*, what the system allows, no file is opened: the open fails with
EMFILE. While some file can't be opened for lack of a handle (a *shortage*), all files at rest are
closed, so that files take turns.
"""

import errno
import sys
from typing import Any, Final

from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.handle_shortage import HANDLE_ERRORS, HandleShortage
from agent.inputs.files.paths.file_locations import is_in_place
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk, FileStat

_SHORTAGE_SECONDS: Final = 10.0
"""Seconds that a shortage lasts after the last failed open."""


class OpenFiles:
    """Counts the open files; all of them are opened and closed here."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        log: Any,
        *,
        max_open_files: int,
        close_idle_seconds: float,
        handles: int = sys.maxsize,
    ) -> None:
        """Close files that are idle for *close_idle_seconds* above *max_open_files*.

        Never open more than *handles*.
        """
        self._disk = disk
        self._clock = clock
        self._handles = handles
        self.set_limits(max_open_files, close_idle_seconds)
        self._shortage = HandleShortage(log)  # warns of files that could not be opened
        self._open = 0  # files that are open
        self._failed_at = -_SHORTAGE_SECONDS  # when an open last failed for lack of a handle (s)

    def set_limits(self, max_open_files: int, close_idle_seconds: float) -> None:
        """Use other limits from now on; see the constructor."""
        self._most_open = min(max_open_files, self._handles)  # above which idle ones close
        self._close_idle_seconds = close_idle_seconds

    def is_short(self, now: float) -> bool:
        """Return whether an open has failed lately, at *now* (s), for lack of a handle."""
        return now - self._failed_at < _SHORTAGE_SECONDS

    @property
    def has_room(self) -> bool:
        """Whether a file may be opened that has no need to be: it has not grown."""
        return self._open < self._most_open and not self.is_short(self._clock.monotonic())

    @property
    def is_crowded(self) -> bool:
        """Whether more files are open than may be while some of them are idle."""
        return self._open > self._most_open

    def may_close(self, followed: FollowedFile, now: float) -> bool:
        """Return whether `close_if_idle` may close a file at rest, without a system call."""
        generation, source = followed.generation, followed.source
        if generation.file is None or (source is not None and source.unacknowledged):
            return False
        idle = now - generation.grown_at > self._close_idle_seconds
        return self.is_short(now) or (idle and self.is_crowded)

    def open_file(self, generation: Generation) -> None:
        """Open the file of *generation* if it is closed.

        Raises OSError; `FileNotFoundError` if its name is gone or another file's.
        """
        if generation.file is not None:
            return

        try:
            # some handles are kept for the connection and the checkpoint
            if self._open >= self._handles:
                raise OSError(
                    errno.EMFILE,
                    "as many files are open as may be: raise the limit (ulimit -n, LimitNOFILE)",
                )
            generation.open_handle(self._disk)
        except OSError as error:
            if error.errno in HANDLE_ERRORS:
                self._failed_at = self._clock.monotonic()
            raise
        self._open += 1

    def close_file(self, generation: Generation) -> None:
        """Close the file of *generation* if it is open."""
        if generation.file is not None:
            generation.close_handle()
            self._open -= 1

    def close_if_crowded(self, generation: Generation) -> None:
        """Close the file if there is no room for the next one."""
        if self._open >= self._most_open:
            self.close_file(generation)

    def close_if_idle(self, followed: FollowedFile, stat: FileStat) -> None:
        """Close an open file that is read and at rest if there are too many open files.

        Above `max_open_files` it must be idle; in a shortage it need not be.
        """
        generation = followed.generation
        now = self._clock.monotonic()
        idle = now - generation.grown_at > self._close_idle_seconds
        short = self.is_short(now)
        if not (short or (idle and self.is_crowded)):
            return

        # deleted files can't be opened again; others must have been read to the end
        if not stat.links or not _is_done(followed, stat, short=short):
            return

        # a file that was moved out of sight can't be opened again: it is closed last
        if (idle and short) or is_in_place(self._disk, generation.place):
            self.close_file(generation)

    def on_open_failed(self, generation: Generation, error: OSError) -> None:
        """Count a file that failed to open with one of `HANDLE_ERRORS`, for the warning."""
        now = self._clock.monotonic()
        self._shortage.on_open_failed(generation.place.key, error, now, self._open)

    def warn_if_due(self, now: float) -> None:
        """Warn of files that could not be opened, if that is due. Call it often."""
        self._shortage.warn_if_due(now)


def _is_done(followed: FollowedFile, stat: FileStat, *, short: bool) -> bool:
    """Return whether nothing is to be read of an open file now, or to be sent again."""
    generation, source = followed.generation, followed.source
    if source is not None:
        return not source.unacknowledged and generation.is_read_up_to(stat)
    # the checkpoint has nothing of it; but who lacks a handle can't wait for its first line, or for
    # what it may be a copy of to differ
    if short and followed.is_looked_at and not generation.may_have_grown(stat):
        return True
    # empty, but for what is set aside and not written
    return not generation.seen and generation.is_read_up_to(stat)
