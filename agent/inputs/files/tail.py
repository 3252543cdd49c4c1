"""Looks at every followed file and keeps its life in order: first line, growth, truncation, removal
(rules G1, G3, G4, P3).

Growth is found by polling open files, each at its own pace (`intervals`): ten thousand that rest
cost about one per cent of a core. One loop, no I/O but on files.
"""

import errno
import heapq
import sys
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import Followed
from agent.inputs.files.globs import MatchedFile
from agent.inputs.files.handle_shortage import CODES, HandleShortage
from agent.inputs.files.locate import Locator
from agent.inputs.files.missing import MissingFiles
from agent.inputs.files.poll_intervals import shortest, slowed
from agent.records.batch import LET_GO, OUT_OF_SIGHT, REMOVED, TRUNCATED, Mark
from agent.records.blocks import Encoder
from agent.records.chunk import TextChunk
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter, FirstLine, Identity
from agent.sources.incarnation_search import Counting
from agent.sources.place import FileKey, FileLocation
from agent.sources.queue import SendQueue
from agent.sources.readable import SourceTruncatedError
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk, FileStat

_CLOSE_LOOK_SECONDS: Final = 10.0
_POLLS_A_CLOSE_LOOK: Final = 4
"""So many at least come before the next close look, which costs several times as much."""
_TROUBLE_SECONDS: Final = 5.0


class Tailer:
    """Polls files. *encoder_of* is asked only for lives that ended before they had a first line.

    Beyond *max_open_files* handles those of files that rest are given back; more than *handles* are
    never held. Without *scans* nothing looks for a file in other directories.
    """

    def __init__(
        self,
        book: SourceRegistry,
        demand: SendQueue,
        *,
        namer: Fingerprinter,
        disk: Disk,
        clock: Clock,
        encoder_of: Callable[[Source], Encoder],
        max_open_files: int,
        close_idle_seconds: float,
        handles: int = sys.maxsize,
        held: DeletedFiles,
        scans: bool = True,
        log: Any,
        file_log: FileLog,
    ) -> None:
        self._book, self._demand = book, demand
        self._namer, self._disk, self._clock, self._encoder_of, self._log = (
            namer,
            disk,
            clock,
            encoder_of,
            log,
        )
        self._max_open, self._close_idle, self._handles = (
            min(max_open_files, handles),
            close_idle_seconds,
            handles,
        )
        self._held, self._shortage = held, HandleShortage(log)
        self._file_log = file_log
        self.missing = MissingFiles(scans=scans)
        """Whom scans have to look for, before they are given up."""
        self.living: dict[FileKey, Followed] = {}
        """The files that are followed, by device and inode."""
        self._lacked_at = -_CLOSE_LOOK_SECONDS
        self._open = 0
        self._queue: list[tuple[float, int, Followed]] = []
        self._order = count()
        self._devices: dict[int, int] = {}
        # looked up once for each directory and device
        self._mounts: dict[tuple[str, int], str] = {}

    # Files that come -----------------------------------------------------------------------------

    def found(self, found: MatchedFile, counting: Counting) -> None:
        """Take notice of a file that an input names; one that is followed under another name
        already is the same.
        """
        stat = found.stat
        key = (stat.device, stat.inode)
        known = self.living.get(key)
        if known is not None:
            if known.generation.place.is_at(stat):
                self._renamed(known.generation.place, found.path)
                return
            self.removed(known, Mark(OUT_OF_SIGHT, exact=False))
        name = self._disk.real_path(found.path)  # what a link stands for is rotated where it is
        name = found.path if name == found.path else name  # one object of two that are kept
        directory = name.rpartition("/")[0] or "/"
        mount = self._mounts.get((directory, stat.device))
        if mount is None:
            mount = self._mounts[directory, stat.device] = self._namer.mount_of(directory)
        device = self._devices.setdefault(stat.device, stat.device)  # one object for all files
        place = FileLocation(found.path, name, mount, device, stat.inode, stat.birth_ns)
        self.follow(Followed(Generation(place, found.settings), counting=counting))

    def _renamed(self, place: FileLocation, path: str) -> None:
        """Take the name *path* under which a scan has met a known file, if the one it had is its
        own no longer.
        """
        # saves a look at each file of each scan
        known = path in (place.path, place.name) and place.key not in self.missing
        if not known and not self._at(place):
            place.name = self._disk.real_path(path)
            self._book.mark_changed()

    def _at(self, place: FileLocation) -> bool:
        """Tell whether a file still is where it is thought to be."""
        try:
            return place.is_at(self._disk.stat(place.name))
        except OSError:
            return False

    def follows(self, path: str, key: FileKey) -> bool:
        """Tell whether *path*, if it has that device and inode, is followed under this name: it is
        while held open, as inodes of files that are open are given to no others.
        """
        known = self.living.get(key)
        if known is None or key in self.missing:
            return False
        return known.generation.file is not None and known.generation.place.name == path

    def follow(self, followed: Followed) -> None:
        """Follow a file from now on, and look at it soon."""
        self.living[followed.generation.place.key] = followed
        self._schedule(followed, 0.0)

    def want(self, source: Source) -> None:
        """Let *source* be asked what it has to tell: its file is gone, so that no look at it
        will.
        """
        self._demand.enqueue(source, self._clock.monotonic())

    # Looking -------------------------------------------------------------------------------------

    def poll_due(self, most: int) -> float | None:
        """Look at up to *most* files that are due.

        Return in how many seconds the next one is, None without any.

        About 2 µs for a file that rests: the heap, and one read.
        """
        now, queue = self._clock.monotonic(), self._queue
        self._shortage.tell_if_due(now)
        self._file_log.write_due()
        for _ in range(most):
            if not queue or queue[0][0] > now:
                break
            followed = queue[0][2]
            if not followed.dropped and self._rests(followed, now):
                heapq.heapreplace(
                    queue, (now + self._slowed(followed, now), next(self._order), followed)
                )
                continue
            heapq.heappop(queue)
            if not followed.dropped:
                self.poll(followed, now)
        return max(0.0, queue[0][0] - now) if queue else None

    def _rests(self, followed: Followed, now: float) -> bool:
        """Tell whether a file needs no close look; where others lack a handle only that gives its
        own back.
        """
        generation = followed.generation
        gives_back = generation.file is not None and self._lacking
        return now < followed.look_at and not gives_back and generation.rests()

    def poll_all(self) -> None:
        """Look closely at every file now."""
        for followed in list(self.living.values()):
            if not followed.dropped:
                self._look(followed)

    def poll_waiting(self) -> bool:
        """Look at the files that lack a handle, now that others may give theirs back.

        Returns whether there were any. Growth of other files is not looked for.
        """
        waiting = [followed for followed in self.living.values() if followed.lacks_handle]
        for followed in list(self.living.values()) if waiting else ():
            self._look_to_give_back(followed)
        for followed in waiting:
            if not followed.dropped:
                self._look(followed)
        return bool(waiting)

    def _look_to_give_back(self, followed: Followed) -> None:
        file = followed.generation.file
        try:
            if file is not None:
                self._close_if_idle(followed, file.stat())
        except OSError as error:
            self._trouble(followed, error)

    def poll(self, followed: Followed, now: float) -> None:
        """Look closely at one file, and plan when to look again."""
        seen = followed.generation.seen
        self._look(followed)
        if followed.dropped:
            return
        if followed.generation.seen != seen and not followed.trouble:
            followed.interval = shortest(len(self.living))
            self._book.mark_changed()
        else:
            self._slowed(followed, now)
        soon = max(_CLOSE_LOOK_SECONDS, _POLLS_A_CLOSE_LOOK * followed.interval)
        followed.look_at = now + min(soon, followed.generation.settings.end_after_seconds / 2)
        self._schedule(followed, followed.interval)

    def _slowed(self, followed: Followed, now: float) -> float:
        """Return in how many seconds to look again at a file that has not grown."""
        generation = followed.generation
        if followed.trouble and not followed.lacks_handle:
            followed.interval = _TROUBLE_SECONDS
        else:
            rested, is_open = now - generation.grown_at, generation.file is not None
            interval = slowed(followed.interval, len(self.living), rested, is_open=is_open)
            # A turn lasts as long as those that wait take to ask: rotated files may be gone by
            # then.
            followed.interval = (
                min(interval, _TROUBLE_SECONDS) if followed.lacks_handle else interval
            )
        return followed.interval

    def _schedule(self, followed: Followed, seconds: float) -> None:
        heapq.heappush(
            self._queue, (self._clock.monotonic() + seconds, next(self._order), followed)
        )

    def _look(self, followed: Followed) -> None:
        now = self._clock.monotonic()
        try:
            stat = self._stat(followed)
            if stat is None:
                self._missed(followed)
                return
            followed.generation.look(stat, now)
            if followed.generation.first_line is None:
                self._name(followed, stat)
            followed.trouble, followed.lacks_handle = "", False
        except SourceTruncatedError:
            self.truncated(followed)
        except OSError as error:
            self._trouble(followed, error)
        else:
            self._end_if_due(followed, now)
            if followed.source is not None and followed.source.has_more:
                self._demand.enqueue(followed.source, now)

    def _stat(self, followed: Followed) -> FileStat | None:
        """Return what the file is now, opened where possible; None where it is not found in its
        directory. Raises OSError.
        """
        generation = followed.generation
        if generation.file is not None:
            stat = generation.file.stat()
            self._close_if_idle(followed, stat)
            return stat
        found = Locator(self._disk, self._namer).find(generation.place)
        if found is None:
            return None
        generation.place.name, stat = found
        self.missing.found(generation.place.key)
        if (
            (self._open < self._max_open and not self._lacking)
            or stat.size > generation.seen
            or (generation.first_line is None and stat.size)
        ):
            self.open(generation)
        return stat

    def _missed(self, followed: Followed) -> None:
        """Look again later at a file that lacks its name; it is gone only once scans have looked
        for it everywhere.
        """
        generation = followed.generation
        if not self.missing.gone(generation.place.key):
            followed.trouble, followed.lacks_handle = "it is looked for under other names", False
            return
        self._file_log.warning(
            "file gone while it was not open",
            generation.place.path,
            position=generation.position,
            seen=generation.seen,
            remedy="let more files stay open: max_open_files, and the system's limit (ulimit -n, "
            "LimitNOFILE)",
        )
        self.removed(followed, Mark(OUT_OF_SIGHT, exact=False))

    def _close_if_idle(self, followed: Followed, stat: FileStat) -> None:
        """Give handles back where there are too many: of files that rest and are read; soon where
        others lack one.

        A file that has moved out of sight can't be opened again, so its handle goes last.
        """
        generation, source = followed.generation, followed.source
        idle = self._clock.monotonic() - generation.grown_at > self._close_idle
        if not (self._lacking or (idle and self._open > self._max_open)):
            return
        # of an empty file nothing is known, and nothing lost
        waits = source.unacknowledged if source is not None else stat.size
        if waits or not stat.links or stat.size != generation.position:
            return
        if (idle and self._lacking) or self._at(generation.place):
            self.close(generation)

    @property
    def _lacking(self) -> bool:
        """Whether some file could not be opened of late, because there was no handle left."""
        return self._clock.monotonic() - self._lacked_at < _CLOSE_LOOK_SECONDS

    def open(self, generation: Generation) -> None:
        """Open it unless it is.

        Raises OSError; `FileNotFoundError` where its name is gone or another's.
        """
        if generation.file is None:
            try:
                if self._open >= self._handles:
                    raise OSError(
                        errno.EMFILE,
                        "as many files are open as may be: raise the limit (ulimit -n, "
                        "LimitNOFILE)",
                    )
                generation.open(self._disk)
            except OSError as error:
                if error.errno in CODES:
                    self._lacked_at = self._clock.monotonic()
                raise
            self._open += 1

    def open_source(self, source: Source) -> None:
        """Open the file that *source* is read from, unless it is. Raises as `open` does."""
        assert isinstance(source.generation, Generation)
        self.open(source.generation)

    def close_if_crowded(self, generation: Generation) -> None:
        """Give its handle back where as many are open as may be: what comes next needs one, too."""
        if self._open >= self._max_open:
            self.close(generation)

    def close(self, generation: Generation) -> None:
        """Give its handle back."""
        if generation.file is not None:
            generation.close()
            self._open -= 1

    def _name(self, followed: Followed, stat: FileStat) -> None:
        """Begin the source of a file as soon as its first line is whole (rule G2)."""
        generation = followed.generation
        if generation.seen == len(followed.head):
            return
        self.open(generation)
        head, followed.head = followed.head, generation.head()
        if not followed.head.startswith(head):
            followed.head = head
            raise SourceTruncatedError
        first_line = FirstLine.find_in(followed.head, ended=followed.ships_unfinished)
        if first_line is None:
            return
        identity = self._namer.identify(stat, generation.place.mount, first_line)
        generation.set_first_line(first_line)
        followed.source = self._book.add_generation(
            generation,
            identity,
            followed.counting,
            closes_when_complete=FirstLine.find_in(followed.head) is None,
        )
        followed.head = b""

    def _end_if_due(self, followed: Followed, now: float) -> None:
        """Give out a last line that lacks its newline for too long (P3); end what has no name and
        no growth (G1), or was held too long.
        """
        generation, settings = followed.generation, followed.generation.settings
        quiet = now - generation.grown_at
        if generation.unread and quiet >= settings.quiet_seconds:
            generation.release_last_line()
        if generation.unnamed_since is None:
            self._held.forget(generation.place.key)
            return
        rests = min(quiet, now - generation.unnamed_since) >= settings.end_after_seconds
        if rests:
            generation.release_last_line()
        if rests and (followed.source is None or generation.unread == 0):
            self.removed(followed, Mark(REMOVED))
            return
        if reason := self._held.excess(generation.place.key, generation.unread, now):
            about = {"unread": generation.unread, "reason": reason}
            self._file_log.warning(
                "deleted file let go before it was read", generation.place.path, **about
            )
            self.removed(followed, Mark(REMOVED) if rests else Mark(LET_GO, exact=False))

    def verify_source(self, source: Source) -> bool:
        """Make sure that *source* can be read and still is what it was; it may have ended by that.

        False where neither can be told.
        """
        followed = self._followed(source)
        if followed is None:
            return True
        self._look(followed)
        generation = followed.generation  # of the source, unless its life is over by now
        if source.readable and not followed.trouble:
            try:
                self.open(generation)
                generation.verify()
            except (SourceTruncatedError, OSError) as error:
                self.on_read_failed(source, error)
        return not followed.trouble

    def on_read_failed(self, source: Source, error: SourceTruncatedError | OSError) -> None:
        """Act on what reading *source* raised."""
        followed = self._followed(source)
        if followed is None:
            return
        if isinstance(error, SourceTruncatedError):
            self.truncated(followed)
        else:
            self._trouble(followed, error)

    def _followed(self, source: Source) -> Followed | None:
        """Return the file that *source* is read from, None where it is not read any more."""
        generation = source.generation
        followed = self.living.get(generation.place.key) if generation is not None else None
        return followed if followed is not None and followed.generation is generation else None

    # Lives that end ------------------------------------------------------------------------------

    def truncated(self, followed: Followed) -> None:
        """The life is over, the file lives on: end the one and follow the next beside it (rule
        G3).
        """
        old, source, head = followed.generation, followed.source, followed.head
        new = old.successor()
        followed.generation, followed.source, followed.head = new, None, b""
        followed.counting = Counting.KNOWN
        self._finish(old, source, head, Mark(TRUNCATED, exact=False))
        self._log.info("file truncated", path=old.place.path, position=old.position, seen=old.seen)
        self._look(followed)

    def removed(self, followed: Followed, mark: Mark) -> None:
        """The file is gone: end its life and follow it no more."""
        generation = followed.generation
        self.close(generation)
        self.missing.found(generation.place.key)
        self._held.forget(generation.place.key)
        followed.dropped = True
        if self.living.get(generation.place.key) is followed:
            del self.living[generation.place.key]
        generation.retire()
        self._finish(generation, followed.source, followed.head, mark)
        self._log.info(
            "file removed",
            path=generation.place.path,
            position=generation.position,
            seen=generation.seen,
        )

    def _finish(
        self, generation: Generation, source: Source | None, head: bytes, mark: Mark
    ) -> None:
        """Let the source of a life that is over tell so; bytes that never made a first line are its
        only line (P3).
        """
        now_ms = self._clock.now_ms()
        first_line = FirstLine.find_in(head, ended=True)
        if source is None and first_line is not None:
            place = generation.place
            identity = Identity(
                self._namer.agent,
                self._namer.host,
                place.mount,
                place.inode,
                place.birth_ns,
                first_line.text,
            )
            generation.set_first_line(first_line)
            source = self._book.add_generation(generation, identity, Counting.KNOWN)
            chunk = TextChunk.whole(head)
            generation.take_all(len(head))
            source.add_runs(self._encoder_of(source).encode(chunk, 0, now_ms))
        if source is not None:
            source.end_generation(mark, now_ms)
            self._book.mark_changed()
            self._demand.enqueue(source, self._clock.monotonic())

    def _trouble(self, followed: Followed, error: OSError) -> None:
        text = os_error_text(error)
        if error.errno in CODES:
            now = self._clock.monotonic()
            self._shortage.lacks(followed.generation.place.key, error.errno, now, self._open)
        elif text != followed.trouble:
            self._file_log.warning(
                "file can't be read", followed.generation.place.name, reason=text
            )
        followed.trouble, followed.lacks_handle = text, error.errno in CODES
        # NFS: this handle never works again, the file behind it may
        if error.errno == errno.ESTALE:
            self.close(followed.generation)
