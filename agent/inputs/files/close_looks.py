"""Looks closely at a followed file, and acts on what is there (rules G1, G2, G3, G4, P3).

A close look, which follows one that sees a change, compares the file's status with the generation:

| a close look sees                        | then                                              |
|------------------------------------------|---------------------------------------------------|
| a larger file                            | its source is enqueued: there is data to send     |
| a first line that is complete            | the generation gets its source (G2)               |
| no growth for `quiet_seconds`            | a last line without newline is sent (P3)          |
| a shorter file, or other content         | the generation ends as truncated, the next starts |
| no name, read, at rest long enough       | the generation ends as removed (G1)               |
| no name, unread, over the limits         | the generation ends as removed or let go (G1)     |
| a closed file whose name is gone         | scans look for it; if they don't find it, the     |
|                                          | generation ends as out of sight (G1)              |
| an error                                 | `FollowedFile.trouble` says it; later looks retry |

`Beginnings` makes sources, and `Endings` has the rules by which generations end.
"""

import errno

import msgspec

from agent.inputs.files.beginnings import Beginnings
from agent.inputs.files.copies.copies import Copies
from agent.inputs.files.endings import Endings
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.handle_shortage import HANDLE_ERRORS
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.globs import FileInputs
from agent.inputs.files.paths.locate import Locator
from agent.inputs.files.paths.missing import MissingFiles
from agent.inputs.files.paths.suffixes import suffix_of
from agent.inputs.files.remounted import RemountedFiles
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter
from agent.sources.place import FileLocation
from agent.sources.queue import SendQueue
from agent.sources.readable import SourceTruncatedError
from logdrive.errors import os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk, FileStat


class CloseLooks:
    """Looks at one followed file at a time. The parts are the tailer's own."""

    def __init__(
        self,
        beginnings: Beginnings,
        endings: Endings,
        send_queue: SendQueue,
        *,
        copies: Copies | None,
        remounted: RemountedFiles,
        open_files: OpenFiles,
        missing: MissingFiles,
        fingerprinter: Fingerprinter,
        inputs: FileInputs | None,
        disk: Disk,
        clock: Clock,
        file_log: FileLog,
    ) -> None:
        """Without *copies* none are looked for, and any file is wanted without *inputs*."""
        self._beginnings = beginnings
        self._endings = endings
        self._send_queue = send_queue
        self._copies = copies
        self._remounted = remounted
        self._open_files = open_files
        self._missing = missing
        self._fingerprinter = fingerprinter
        self._inputs = inputs
        self._disk = disk
        self._clock = clock
        self._file_log = file_log

    def make_locator(self) -> Locator:
        """Return what finds the names of moved files, for looks that follow one another at once."""
        return Locator(self._disk, self._fingerprinter)

    def look_at(self, followed: FollowedFile, locator: Locator | None = None) -> None:
        """Look closely at one file, and act on what is seen.

        Pass the same *locator* where many files are looked at: it lists each directory once.
        """
        now = self._clock.monotonic()
        try:
            stat = self._open_and_stat(followed, locator)
            if stat is None:
                self._remounted.on_look_failed(followed)
                self._endings.on_missing(followed)
                if followed.dropped:
                    self._remounted.on_looked(followed)
                return

            followed.generation.on_stat(stat, now)
            # one that was closed just now has its turn later
            is_open = followed.generation.file is not None
            if followed.generation.first_line is None and is_open:
                self._beginnings.begin_source(followed, stat)
            if followed.dropped:
                return
            if followed.trouble:
                followed.clear_trouble()
                self._remounted.on_looked(followed)
                # the handle is of use at once, and free for the next file soon
                if followed.source is not None and is_open:
                    self._send_queue.on_file_open(followed.source)
        except SourceTruncatedError:
            self.end_truncated(followed)
        except OSError as error:
            self.on_error(followed, error)
        else:
            self._endings.end_if_due(followed, now)
            # the source may have got lines, a gap or its end record
            if followed.source is not None and followed.source.has_more:
                self._send_queue.enqueue(followed.source, now)

    def _open_and_stat(self, followed: FollowedFile, locator: Locator | None) -> FileStat | None:
        """Return the status of the file, None if its directory lacks it. Raises OSError.

        A closed file is opened if there is room, or if it must be read.
        """
        generation = followed.generation
        if generation.file is not None:
            stat = generation.file.stat()
            self._open_files.close_if_idle(followed, stat)
            return stat

        locator = locator or self.make_locator()
        location = locator.find_file(generation.place)
        moved = location is None
        if moved:
            location = locator.find_file(generation.place, moved=True)
        # before it is moved: that takes over the name
        if location is None or self.is_packed_by_now(generation, location[0]):
            return None
        if moved and not self._remounted.move_to_device(followed, *location):
            return None
        generation.place.name, stat = location
        self._missing.on_file_found(generation.place.key)

        # a file at rest is not opened if that would close another one
        has_grown = generation.may_have_grown(stat)
        may_have_first_line = (
            generation.first_line is None
            and not generation.is_read_up_to(stat)
            and (followed.held or not followed.is_looked_at)
        )
        has_waited = followed.lacks_handle and generation.unread > 0
        if self._open_files.has_room or has_grown or may_have_first_line or has_waited:
            self._open_files.open_file(generation)
        return stat

    def is_packed_by_now(self, generation: Generation, path: str) -> bool:
        """Return whether *path*, which has the inode of a file of which nothing was ever seen, is a
        compressed file: no byte tells the two apart.
        """
        if self._copies is None or generation.seen:
            return False
        return bool(suffix_of(path)) and not suffix_of(generation.place.name)

    def close_if_idle(self, followed: FollowedFile) -> None:
        """Close a file that is open and needs no handle now."""
        file = followed.generation.file
        try:
            if file is not None:
                self._open_files.close_if_idle(followed, file.stat())
        except OSError as error:
            self.on_error(followed, error)

    # What is wrong -------------------------------------------------------------------------------

    def end_truncated(self, followed: FollowedFile) -> None:
        """End the generation of a truncated file, and look at the next one (rule G3)."""
        self._endings.end_truncated(followed)
        if followed.dropped:
            return
        if self.is_wanted(followed.generation.place):
            self.name_anew(followed.generation)
            self.look_at(followed)
        else:
            self._endings.unfollow(followed)

    def name_anew(self, generation: Generation) -> None:
        """Let a generation that begins now be known by the name that its file has now.

        The one before it may have been found under another name. Where a file system knows no birth
        times, the inode of that file may even have been given to this one, in another directory.
        """
        place = generation.place
        if self._inputs is None or self._disk.real_path(place.path) == place.name:
            return
        settings = self._inputs.settings_for(place.name)
        if settings is not None:
            # the one before keeps its own
            generation.place = msgspec.structs.replace(place, path=place.name)
            generation.apply_settings(settings)

    def is_wanted(self, place: FileLocation) -> bool:
        """Return whether the file that is at *place* now is to be read as it is.

        The inode of a closed file may have been given to one that no input names, or to one that is
        compressed: no next generation begins in it.
        """
        if self._inputs is None:
            return True
        if suffix_of(place.name):
            return False
        is_named = self._inputs.settings_for(place.name) is not None
        return is_named or self._disk.real_path(place.path) == place.name

    def on_error(self, followed: FollowedFile, error: OSError) -> None:
        """Note why a file can't be read, and log it if it is new."""
        generation, reason = followed.generation, os_error_text(error)
        lacks_handle = error.errno in HANDLE_ERRORS
        if lacks_handle:
            self._open_files.on_open_failed(generation, error)
        elif reason != followed.trouble:
            self._file_log.warning("file can't be read", generation.place.name, reason=reason)
        followed.set_trouble(reason, lacks_handle=lacks_handle)
        if followed.source is None and self._copies is not None:
            self._copies.await_unreadable(generation.place.name, error)

        # a stale NFS handle never works again, but the file may be opened again
        if error.errno == errno.ESTALE:
            self._open_files.close_file(generation)
        self._remounted.on_look_failed(followed)
