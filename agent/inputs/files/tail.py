"""Follows files: notices growth, renaming, truncation and removal (rules G1, G3, G4, P3).

Each followed file has one current generation, which gets a source as soon as its first line is
complete. Changes are found by polling: `LookSchedule` says when to look at which file, and ten
thousand files at rest cost about one percent of a core. `CloseLooks` does what follows a change. A
connection calls the same rules before it reads (`Input`). This runs on the event loop, and does no
I/O but on files.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from agent.inputs.files.beginnings import Beginnings
from agent.inputs.files.close_looks import CloseLooks
from agent.inputs.files.compressed.compressed_files import CompressedFiles
from agent.inputs.files.compressed.generation import CompressedGeneration
from agent.inputs.files.compressed.unpacked import SeekingError
from agent.inputs.files.copies.copies import Copies
from agent.inputs.files.copy_parts import make_copy_parts
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.end_recorder import EndRecorder
from agent.inputs.files.endings import Endings
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.look_schedule import LookSchedule
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.file_locations import FileLocations
from agent.inputs.files.paths.globs import FileInputs, MatchedFile
from agent.inputs.files.paths.locate import Locator
from agent.inputs.files.paths.missing import MissingFiles
from agent.inputs.files.paths.suffixes import suffix_of
from agent.inputs.files.remounted import RemountedFiles
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter
from agent.sources.incarnation_search import Counting
from agent.sources.place import FileKey
from agent.sources.queue import SendQueue
from agent.sources.readable import SourceTruncatedError
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.records.blocks import Encoder
from logdrive.records.runs import OUT_OF_SIGHT, GapOrEndMark


class Tailer:
    """Looks at followed files, and applies the rules above. The agent's `Input` for files."""

    def __init__(
        self,
        registry: SourceRegistry,
        send_queue: SendQueue,
        *,
        fingerprinter: Fingerprinter,
        disk: Disk,
        clock: Clock,
        encoder_of: Callable[[Source], Encoder],
        open_files: OpenFiles,
        deleted_files: DeletedFiles,
        inputs: FileInputs | None,
        log: Any,
        file_log: FileLog,
    ) -> None:
        """Add sources to *registry*, and to *send_queue* when they have data to send.

        *encoder_of* is called only for a file that ends without a first line. A `Scanner` finds the
        files of *inputs*; without any there is none, and a file whose name is gone is not waited
        for.
        """
        self._registry = registry
        self._send_queue = send_queue
        self._disk = disk
        self._clock = clock
        self._file_log = file_log
        self._locations = FileLocations(disk, fingerprinter)  # real names and mount points

        self.open_files = open_files  # opens and closes all followed files
        self.missing = MissingFiles(scans=inputs is not None)  # files that scans must look for
        self.followed: dict[FileKey, FollowedFile] = {}  # by device and inode
        self._remounted = RemountedFiles(self.followed, self.missing, disk, fingerprinter)
        self._schedule = LookSchedule(clock, self.followed)  # when to look at which file
        # recognize copies, where scans look for files
        self.copies: Copies | None = None
        self.compressed: CompressedFiles | None = None
        if inputs is not None:
            parts = make_copy_parts(
                registry,
                send_queue,
                self.followed,
                fingerprinter=fingerprinter,
                locations=self._locations,
                disk=disk,
                clock=clock,
                open_files=open_files,
                missing=self.missing,
                follow_file=self.follow_file,
                look_at=lambda followed: self.looks.look_at(followed),
                log=log,
                file_log=file_log,
            )
            self.copies, self.compressed = parts.copies, parts.compressed
        self._endings = Endings(
            self.followed,
            EndRecorder(
                registry,
                send_queue,
                fingerprinter=fingerprinter,
                clock=clock,
                encoder_of=encoder_of,
            ),
            copies=self.copies,
            open_files=open_files,
            missing=self.missing,
            deleted_files=deleted_files,
            log=log,
            file_log=file_log,
        )
        self.looks = CloseLooks(
            Beginnings(registry, fingerprinter, open_files, self.copies),
            self._endings,
            send_queue,
            copies=self.copies,
            remounted=self._remounted,
            open_files=open_files,
            missing=self.missing,
            fingerprinter=fingerprinter,
            inputs=inputs,
            disk=disk,
            clock=clock,
            file_log=file_log,
        )

    def on_match(self, match: MatchedFile, counting: Counting) -> None:
        """Follow a file that an input matches, unless it is followed already.

        Called for each file of a scan. *counting* is how the count of a new source is found.
        """
        stat = match.stat
        known = self.followed.get((stat.device, stat.inode))
        if known is not None:
            place = known.generation.place
            is_same = place.is_at(stat) or self._is_copied_up(known.generation, match.path)
            if is_same and not self.looks.is_packed_by_now(known.generation, match.path):
                # a known name saves a look at each file of each scan
                is_known = match.path in (place.path, place.name) and place.key not in self.missing
                if not is_known and self._locations.update_name(place, match.path):
                    self._registry.mark_changed()
                return
            # the inode was freed and given to another file
            self._endings.end_removed(known, GapOrEndMark(OUT_OF_SIGHT, exact=False))
        elif self._remounted.move_returned(match, self.poll_all):
            self._registry.mark_changed()
            return

        if self.compressed is not None and suffix_of(match.path):
            self.compressed.add_match(match, counting)
            return
        if self.copies is not None and self.copies.is_settled(match.path, stat):
            return
        place = self._locations.locate_match(match)
        generation = Generation(place, match.settings)
        self.follow_file(FollowedFile(generation, counting=counting, found_at_start=match.at_start))

    def _is_copied_up(self, generation: Generation, path: str) -> bool:
        """Return whether *path* is an open file that has got another birth time; take that over.

        In overlayfs a file of a lower layer gets one when it is first written to. The inode of an
        open file is given to no other.
        """
        place = generation.place
        if generation.file is None:
            return False
        try:
            generation.file.stat()  # of a stale NFS handle the inode may be another's
            stat = self._disk.stat(path)
        except OSError:
            return False
        if not stat.is_file or (stat.device, stat.inode) != place.key:
            return False
        place.birth_ns = stat.birth_ns
        self._registry.mark_changed()
        return True

    def is_followed(self, path: str, key: FileKey) -> bool:
        """Return whether the file *path* of this device and inode is surely the one followed.

        That is so while it is open, since the inode of an open file is given to no other.
        """
        known = self.followed.get(key)
        if known is None or key in self.missing:
            return False
        return known.generation.file is not None and known.generation.place.name == path

    def is_unchanged(self, path: str, key: FileKey) -> bool:
        """Return whether the file *path* is followed and as it was at the last close look."""
        known = self.followed.get(key)
        if known is None or key in self.missing or known.generation.place.name != path:
            return False
        generation = known.generation
        try:
            return self._disk.is_unchanged(path, key, generation.seen, generation.modified_ns)
        except OSError:
            return False

    @property
    def has_uncounted(self) -> bool:
        """Whether files without a source were there at a start without a checkpoint."""
        if self.compressed is not None and self.compressed.is_busy:
            return True
        return any(
            followed.source is None and not followed.counted and followed.counting is Counting.MANY
            for followed in self.followed.values()
        )

    def follow_file(self, followed: FollowedFile) -> None:
        """Follow a file from now on; the first look is due at once."""
        self.followed[followed.generation.place.key] = followed
        self._remounted.on_device(followed.generation.place.device)
        self._schedule.add_due_now(followed)

    def unfollow(self, followed: FollowedFile) -> None:
        """Follow a file no more, as no input asks for it; its source is the caller's."""
        self._endings.unfollow(followed)

    def followed_of(self, source: Source) -> FollowedFile | None:
        """Return the file that *source* is read from, None if it is not read any more."""
        generation = source.generation
        followed = self.followed.get(generation.place.key) if generation is not None else None
        return followed if followed is not None and followed.generation is generation else None

    def enqueue_source(self, source: Source) -> None:
        """Enqueue a source whose file is gone: no look would do it."""
        self._send_queue.enqueue(source, self._clock.monotonic())

    def poll_due(self, most: int) -> float | None:
        """Look at up to *most* files that are due.

        Returns the seconds until the next one is due, None without any file. Takes about 3 µs for a
        file at rest: the schedule, and one system call.
        """
        now, schedule = self._clock.monotonic(), self._schedule
        self.open_files.warn_if_due(now)
        self._file_log.write_due()
        if self.copies is not None:
            self.copies.search_due(now)
        # true for many files or for none: in a shortage of handles, or with too many open files
        tight = self.open_files.is_short(now) or self.open_files.is_crowded

        locator = self.looks.make_locator()
        for followed in schedule.take_due(now, most):
            if followed.dropped:
                continue
            if self._is_at_rest(followed, now, tight=tight):
                schedule.postpone(followed, now)
            else:
                self._poll_file(followed, now, locator)

        return schedule.seconds_until_due(now)

    def _is_at_rest(self, followed: FollowedFile, now: float, *, tight: bool) -> bool:
        """Return whether a file needs no close look now; *tight* if files may have to be closed."""
        if followed.trouble or (now >= followed.look_closely_at and self._may_change(followed)):
            return False
        # only a close look ends the source of a copy
        source = followed.source
        if followed.ending is not None or (source is not None and source.ending is not None):
            return False
        if tight and self.open_files.may_close(followed, now):
            return False
        return followed.generation.is_at_rest(self._disk)

    def _may_change(self, followed: FollowedFile) -> bool:
        """Return whether a close look may act on a file although it is as it was.

        It opens closed files, and compares their birth times.
        """
        if followed.generation.file is None:
            return True
        return followed.source is not None and followed.source.has_more

    def poll_all(self) -> None:
        """Look closely at every file now."""
        for _ in self.poll_each():
            pass

    def poll_each(self) -> Iterator[FollowedFile]:
        """Look closely at every file now, and yield each."""
        locator = self.looks.make_locator()
        for followed in list(self.followed.values()):
            if not followed.dropped:
                self.looks.look_at(followed, locator)
                yield followed

    def poll_in_turn(
        self, is_no_copy: Callable[[Generation], bool] | None = None
    ) -> Iterator[FollowedFile]:
        """Look closely at every file now, and yield each while it is open.

        Then it is closed where there is no room for the next one, though it is not read. A file of
        which *is_no_copy* says so is none, whatever it begins like.
        """
        for followed in list(self.followed.values()):
            if followed.dropped:
                continue
            with contextlib.suppress(OSError):  # the look says what is wrong
                self.open_files.open_file(followed.generation)
                if is_no_copy is not None and is_no_copy(followed.generation):
                    followed.mark_no_copy()
            self.looks.look_at(followed)
            yield followed
            self.open_files.close_if_crowded(followed.generation)

    def release_last_lines(self) -> None:
        """Let last lines be sent without their newline, also first ones: none grows any more."""
        for followed in list(self.followed.values()):
            followed.ships_unfinished, followed.head = True, b""
            followed.generation.release_last_line()
            if not followed.dropped:
                self.looks.look_at(followed)

    def poll_waiting(self) -> bool:
        """Look at the files that lack a handle, closing others for them where possible.

        Returns whether there were any. Growth of other files is not looked for.
        """
        waiting = [followed for followed in self.followed.values() if followed.lacks_handle]
        for followed in list(self.followed.values()) if waiting else ():
            self.looks.close_if_idle(followed)
        locator = self.looks.make_locator()
        for followed in waiting:
            if not followed.dropped:
                self.looks.look_at(followed, locator)

        return bool(waiting)

    def _poll_file(self, followed: FollowedFile, now: float, locator: Locator) -> None:
        """Look closely at one file, and plan when to look again."""
        seen = followed.generation.seen
        self.looks.look_at(followed, locator)
        if followed.dropped:
            return

        has_grown = followed.generation.seen != seen and not followed.trouble
        if has_grown:
            self._registry.mark_changed()
        self._schedule.add_after_look(followed, now, has_grown=has_grown)

    def open_source(self, source: Source) -> None:
        """Open the file that *source* is read from. Raises OSError."""
        assert isinstance(source.generation, Generation)
        self.open_files.open_file(source.generation)

    def verify_source(self, source: Source) -> bool:
        """Compare the file of *source* with what was read of it; end the source if they differ.

        Returns False if the file can't be read now.
        """
        followed = self.followed_of(source)
        if followed is None:
            return True

        self.looks.look_at(followed)
        # the look may have ended it, or found its rest in a copy
        followed = self.followed_of(source)
        if followed is None:
            return True
        generation = followed.generation
        if source.readable and not followed.trouble:
            try:
                self.open_files.open_file(generation)
                generation.verify_content()
            except (SourceTruncatedError, OSError) as error:
                self.on_read_failed(source, error)
        return not followed.trouble

    def resend_source(self, source: Source) -> Source | None:
        """Have the file of *source* sent again under the next count; return its source (rule A4).

        None, and nothing has changed, if the file can't be read now or was truncated.
        """
        if not self.verify_source(source) or not source.readable:
            return None
        followed = self.followed_of(source)
        if followed is None or followed.ending is not None:
            return None
        self._endings.end_resent(followed)
        self.looks.look_at(followed)
        if followed.source is not None:
            followed.source.mark_resent()
        return followed.source

    def on_read_failed(self, source: Source, error: SourceTruncatedError | OSError) -> None:
        """Handle the *error* that reading *source* raised."""
        followed = self.followed_of(source)
        if followed is None:
            return
        generation = followed.generation
        if isinstance(error, SourceTruncatedError):
            self.looks.end_truncated(followed)
        elif isinstance(error, SeekingError) and isinstance(generation, CompressedGeneration):
            assert self.compressed is not None, "only it makes such generations"
            self.compressed.seek(generation, source)
        else:
            self.looks.on_error(followed, error)
