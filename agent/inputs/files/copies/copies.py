"""Copies of files: recognized, read on from, or left alone (rule G5).

Theory of operation. A file that is new to the agent gets a source only if `admits_source` says so:
if its first line is that of a generation that is known, `judge` compares them. A file that may be a
copy is *held*: it is followed without a source, and judged again at each look.

When a file is truncated, or gone with unread bytes, its source stays open: `await_rest`. Held files
and files beside it whose names go on after its own are looked through for a copy, at once and then
twice a second. The source is read on from the copy, whose `FollowedFile.ending` says so, and ends
with it (`finish_rest`). If there is none after ten seconds and a scan, what was not read is a gap.

| a source                    | event                                    | becomes                 |
|-----------------------------|------------------------------------------|-------------------------|
| living                      | `await_rest`                             | awaited                 |
| living, its file has no name| a file begins with all of it             | living, in that file    |
| awaited                     | a copy has what was read, and perhaps    | read from the copy      |
|                             | more                                     |                         |
| awaited                     | none is found in time                    | ended, perhaps with gap |
| read from a copy            | all is read, and the copy is at rest     | ended                   |
| read from a copy            | the copy is gone, or is another          | awaited                 |
"""

import os
from collections.abc import Callable
from typing import Any, Final

from agent.inputs.files.copies.awaited import AwaitedRest
from agent.inputs.files.copies.judge import REST_SECONDS, CopyVerdict, Judgement, Suspect
from agent.inputs.files.copies.known_life import LifeState, is_name_like
from agent.inputs.files.copies.recognizer import CopyRecognizer
from agent.inputs.files.copies.samples import PlainSample
from agent.inputs.files.copies.search import CopySearch, Listed
from agent.inputs.files.copies.settled import SettledCopies
from agent.inputs.files.copies.unread import finds_unread
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.handle_shortage import HANDLE_ERRORS
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.missing import MissingFiles
from agent.inputs.files.paths.suffixes import suffix_of
from agent.sources.checkpoint.entry import CopyStamp
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter, FirstLine, Identity
from agent.sources.place import FileKey, FileLocation
from agent.sources.queue import SendQueue
from agent.sources.readable import SourceTruncatedError
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk, FileStat
from logdrive.records.runs import OUT_OF_SIGHT, REMOVED, GapOrEndMark

_SEARCH_SECONDS: Final = 0.5
"""Seconds between two searches for copies."""

_FRESH_NS: Final = 10_000_000_000
"""A copy is of a file's last state if it was changed at most so long before the file."""


class Copies:
    """All copies, and the sources that wait for one."""

    def __init__(
        self,
        registry: SourceRegistry,
        send_queue: SendQueue,
        followed: dict[FileKey, FollowedFile],
        *,
        fingerprinter: Fingerprinter,
        disk: Disk,
        clock: Clock,
        open_files: OpenFiles,
        missing: MissingFiles,
        try_compressed: Callable[[AwaitedRest, str, float], None],
        follow_file: Callable[[FollowedFile], None],
        look_at: Callable[[FollowedFile], None],
        log: Any,
        file_log: FileLog,
    ) -> None:
        """*try_compressed* looks whether a compressed file has a rest, *follow_file* follows a file
        from now on, *look_at* looks closely at one.
        """
        self._registry = registry
        self._send_queue = send_queue
        self._followed = followed
        self._fingerprinter = fingerprinter
        self._disk = disk
        self._clock = clock
        self._open_files = open_files
        self._missing = missing
        self._try_compressed = try_compressed
        self.follow = follow_file
        self._look_at = look_at
        self._log = log
        self._file_log = file_log
        self.recognizer = CopyRecognizer(registry, disk)
        self.settled = SettledCopies(registry)  # copies that need no further look
        self.beside = CopySearch(registry, followed, self.recognizer, fingerprinter, disk)
        self._awaited: dict[Source, AwaitedRest] = {}
        self._search_at = 0.0  # when to search next (monotonic, s)

    # New files -----------------------------------------------------------------------------------

    def admits_source(self, followed: FollowedFile, first_line: FirstLine) -> bool:
        """Return whether an open file, which has no source yet, gets one of its own.

        If not, it is held, or dropped, or has got the source that it belongs to. Raises OSError.
        """
        if not self._registry.first_lines.find(first_line.crc):
            followed.set_held(False)
            return True

        judged = self._judge_held(followed, first_line)
        if judged is None:
            return False
        if judged.verdict is CopyVerdict.NEW:
            followed.set_held(False)
            followed.generation.set_start(judged.start)
            return True
        self._apply(followed, judged)
        return False

    def _judge_held(self, followed: FollowedFile, first_line: FirstLine) -> Judgement | None:
        """Return what an open file is; None if that was found while others were looked at."""
        generation = followed.generation
        assert generation.file is not None
        now = self._clock.monotonic()
        suspect = Suspect(
            generation.place.name,
            # without what is set aside at its end, which says nothing (rule P5)
            PlainSample(generation.file, min(generation.file.stat().size, generation.seen)),
            # nobody copies to what has lost its name
            now - generation.grown_at >= REST_SECONDS or generation.unnamed_since is not None,
        )
        could_look = self.look_at_living(suspect, first_line)
        if followed.dropped or followed.source is not None or generation.file is None:
            return None
        if not could_look:
            followed.set_held(True)
            return None
        return self.recognizer.judge(suspect, first_line)

    def look_at_living(self, suspect: Suspect, first_line: FirstLine) -> bool:
        """Look at the files that *suspect* may be a copy of: one that was truncated, or replaced,
        must not be taken for a living one.

        Returns False if there was no handle for one of them: it has its turn later.
        """
        lacking = False
        for source in self.recognizer.living_like(suspect, first_line):
            if (other := self._followed_by(source)) is not None:
                self._look_at(other)
                lacking |= other.lacks_handle and not other.dropped
        return not lacking

    def finds_unread(self, path: str, first_line: FirstLine) -> bool:
        """Look at the files without a source that *path*, which has *first_line*, may be a copy of.

        Returns whether one has got its source by that, or will get it soon. Raises OSError.
        """
        return finds_unread(self._followed.values(), path, first_line, self._look_at)

    def _apply(self, followed: FollowedFile, judged: Judgement) -> None:
        """Do what *judged*, which is not NEW, says of a file without a source."""
        generation, life = followed.generation, judged.life
        assert generation.file is not None
        assert life is not None
        stat = generation.file.stat()
        awaited = self.awaited_for(life.source) if life.source is not None else None
        if judged.verdict is CopyVerdict.HELD:
            if not followed.held:
                self._log.info("file may be a copy", path=generation.place.name, of=life.path)
            followed.set_held(True, covered=judged.covered)
            self.await_longer(judged)
        elif judged.verdict is CopyVerdict.COPY:
            self._drop(followed)
            self.on_copy(judged, generation.place.name, stat)
        elif awaited is not None:
            self._read_on(awaited, generation.place.name, stat, judged.verdict)
        elif life.state is LifeState.LIVING and life.source is not None:
            self._move(life.source, followed)

    def on_copy(self, judged: Judgement, path: str, stat: FileStat) -> None:
        """Look no more at the copy *path*, until it changes."""
        life = judged.life
        self.settled.add(stat)
        if life is None:
            return
        self._log.info("file is a copy", path=path, of=life.path)
        if life.source is not None and (awaited := self.awaited_for(life.source)) is not None:
            _note_copy(awaited, stat)

    def is_settled(self, path: str, stat: FileStat) -> bool:
        """Return whether the file *path* is a copy that needs no further look.

        A source that has begun to wait for a copy looks at it first.
        """
        if not self.settled.has(stat):
            return False
        for awaited in list(self._awaited.values()):
            if is_name_like((awaited.path, awaited.name), path):
                self._try_path(awaited, path, self._clock.monotonic())
        return True

    def is_followed(self, stat: FileStat) -> bool:
        """Return whether the file of *stat* is followed."""
        known = self._followed.get((stat.device, stat.inode))
        return known is not None and known.generation.place.is_at(stat)

    def awaited_for(self, source: Source) -> AwaitedRest | None:
        """Return what is looked for of *source*, None if nothing is."""
        # the store may have said that it has all of it
        if source in self._awaited and source not in self._registry.sources:
            del self._awaited[source]
        return self._awaited.get(source)

    def await_longer(self, judged: Judgement) -> None:
        """Look longer for the rest of the generation in *judged*, if it is looked for."""
        source = judged.life.source if judged.life is not None else None
        if source is not None and (awaited := self.awaited_for(source)) is not None:
            awaited.wait_longer(self._clock.monotonic())

    def await_unreadable(self, path: str, error: OSError) -> None:
        """Look longer for the rests that the file *path* may have: it can't be read, for now."""
        if isinstance(error, FileNotFoundError):
            return
        now = self._clock.monotonic()
        for awaited in self._awaited.values():
            if not is_name_like((awaited.path, awaited.name), path):
                continue
            if error.errno in HANDLE_ERRORS:
                awaited.wait_longer(now)
            else:
                awaited.wait_for_unreadable(now)

    def note_surveyed(self, stamp: CopyStamp) -> None:
        """Note that a compressed file was compared with all sources that wait for a copy."""
        for awaited in self._awaited.values():
            awaited.surveyed.add(stamp)

    def forget(self, followed: FollowedFile) -> None:
        """Follow a copy no more, until it changes."""
        stat = self._stat_of(followed.generation)
        self._drop(followed)
        if stat is not None:
            self.settled.add(stat)

    def _drop(self, followed: FollowedFile) -> None:
        generation = followed.generation
        key = generation.place.key
        self._open_files.close_file(generation)
        self._missing.on_file_found(key)
        followed.drop()
        if self._followed.get(key) is followed:
            del self._followed[key]

    def _move(self, source: Source, followed: FollowedFile) -> None:
        """Let *source*, whose file has no name any more, go on in the file of *followed*."""
        old = source.generation
        assert isinstance(old, Generation)
        assert followed.generation.file is not None
        awaited = AwaitedRest.from_generation(source, old, GapOrEndMark(OUT_OF_SIGHT, exact=False))
        before, name = self._followed_by(source), followed.generation.place.name
        self._read_on(awaited, name, followed.generation.file.stat(), CopyVerdict.MOVED)
        if before is not None:
            self._drop(before)
        old.retire()

    def _followed_by(self, source: Source) -> FollowedFile | None:
        generation = source.generation
        followed = self._followed.get(generation.place.key) if generation is not None else None
        return followed if followed is not None and followed.source is source else None

    # Files that are gone -------------------------------------------------------------------------

    def await_rest(self, awaited: AwaitedRest, *, at_once: bool = True) -> None:
        """Keep a source open whose file is gone, and look for a copy of it, *at_once* and later.

        Its generation, if it has one, must be retired.
        """
        now = self._clock.monotonic()
        awaited.since, awaited.until = now, now + REST_SECONDS
        awaited.scan = self._missing.next_complete_scan()
        awaited.source.await_copy(awaited.mark)
        self._registry.keep_entry(awaited.source)
        self._registry.mark_changed()
        self._awaited[awaited.source] = awaited
        if at_once:
            self._search(awaited, now, {})

    def await_again(self, followed: FollowedFile) -> None:
        """Look for another copy: that of *followed* can't be read on."""
        generation, source = followed.generation, followed.source
        assert source is not None
        assert followed.ending is not None
        self._drop(followed)
        generation.retire()
        self.await_rest(
            AwaitedRest.from_generation(source, generation, followed.ending, owed=followed.owed)
        )

    def search_due(self, now: float) -> None:
        """Look for the copies that sources wait for, if that is due. Call it often."""
        if self._awaited and now >= self._search_at:
            self._search_at = now + _SEARCH_SECONDS
            listed: Listed = {}
            for awaited in list(self._awaited.values()):
                self._search(awaited, now, listed)

    def _search(self, awaited: AwaitedRest, now: float, listed: Listed) -> None:
        """Look through the files beside a file that is gone; give it up if its time is over."""
        if self.awaited_for(awaited.source) is None:
            return
        if not self._missing.looked_everywhere:
            awaited.wait_for_unreadable(now)
        for path in self.beside.paths_beside(awaited, listed):
            self._try_path(awaited, path, now)
            if awaited.source not in self._awaited:
                return
        if now >= awaited.until and self._missing.has_ended(awaited.scan):
            self._give_up(awaited)

    def _try_path(self, awaited: AwaitedRest, path: str, now: float) -> None:
        """Read on from the file *path* if it is a copy. If it changes, the next search sees it."""
        try:
            if suffix_of(path):
                self._try_compressed(awaited, path, now)
            else:
                self._try_candidate(awaited, path, now)
        except SourceTruncatedError:
            return
        except OSError as error:
            self.await_unreadable(path, error)

    def _try_candidate(self, awaited: AwaitedRest, path: str, now: float) -> None:
        """Read on from the plain file *path* if it is a copy. Raises OSError."""
        judged, stat = self.beside.judge_path(awaited, path, now)
        if judged.verdict is CopyVerdict.HELD:
            awaited.wait_longer(now)
        elif judged.verdict is CopyVerdict.COPY:
            _note_copy(awaited, stat)
        elif judged.verdict in (CopyVerdict.REST, CopyVerdict.MOVED):
            self._read_on(awaited, path, stat, judged.verdict)

    def _read_on(
        self, awaited: AwaitedRest, path: str, stat: FileStat, verdict: CopyVerdict
    ) -> None:
        """Read the source on from the file *path*: its rest, or, if it has MOVED, all that comes.

        Raises OSError, or `SourceTruncatedError` if the file has changed since it was judged.
        """
        source = awaited.source
        name = self._disk.real_path(path)
        mount = self._fingerprinter.mount_of(os.path.dirname(name))
        place = FileLocation(awaited.path, name, mount, stat.device, stat.inode, stat.birth_ns)
        generation = Generation(
            place,
            awaited.settings,
            start=self._registry.start_of(source),
            first_line=awaited.first_line,
        )
        generation.prefix = awaited.prefix
        self.take_over(awaited, generation, moved=verdict is CopyVerdict.MOVED)

    def take_over(
        self,
        awaited: AwaitedRest,
        generation: Generation,
        *,
        moved: bool,
    ) -> None:
        """Let the source of *awaited* go on with *generation*; if it has *moved*, for good.

        Raises OSError, or `SourceTruncatedError` if the
        file has changed since it was judged.
        """
        source, now, place = awaited.source, self._clock.monotonic(), generation.place
        generation.resume_from(source.cursor)
        self._open_files.open_file(generation)
        assert generation.file is not None
        try:
            generation.on_stat(generation.file.stat(), now)
            generation.verify_content()
            self._know_identity(awaited, generation)
        except (OSError, SourceTruncatedError):
            self._open_files.close_file(generation)
            raise

        if (held := self._followed.get(place.key)) is not None:
            self._drop(held)
        self._awaited.pop(source, None)
        source.continue_with(generation, living=moved)
        if moved:
            self._registry.drop_entry(source)
        followed = FollowedFile(generation, source, owed=awaited.seen)
        followed.ending = None if moved else awaited.mark
        self.follow(followed)
        self._registry.mark_changed()
        if source.has_more:
            self._send_queue.enqueue(source, now)
        self._log.info(
            "file goes on in another" if moved else "rest of a file is read from its copy",
            path=awaited.path,
            copy=place.name,
            position=source.position,
            size=generation.seen,
        )

    def _know_identity(self, awaited: AwaitedRest, generation: Generation) -> None:
        """Let the source of a file that went while no agent ran make further origin ids."""
        if self._registry.incarnations[awaited.source.incarnations.stem].identity is not None:
            return
        line_end, span = awaited.settings.line_end_bytes, awaited.first_line.span
        first_line = FirstLine.find_again(generation.read_head(), span, line_end)
        identity = Identity(
            self._fingerprinter.agent,
            self._fingerprinter.host,
            awaited.mount,
            awaited.inode,
            awaited.birth_ns,
            first_line.text,
        )
        # not where it is the entry of the copy itself
        if identity.stem == awaited.source.incarnations.stem:
            self._registry.incarnations_of(identity.stem, identity)

    def _give_up(self, awaited: AwaitedRest) -> None:
        """End a source whose rest was not found: what was seen and not read is a gap."""
        del self._awaited[awaited.source]
        mark, source = awaited.lost_mark, awaited.source
        # a compressed file that could not be read all the while is another source once it can
        self.settled.discard(awaited.inode, awaited.birth_ns)
        exact = mark.exact or (awaited.copied and source.cursor_position >= awaited.seen)
        # of files that are seen to go, it is known where they end
        if mark.reason == REMOVED and not exact and not awaited.told:
            self._file_log.warning(
                "file gone while the agent was away",
                awaited.path,
                acknowledged=source.position,
                unknown=f"whether it grew beyond the {awaited.seen} bytes seen last, and by what",
            )
        self._end(source, GapOrEndMark(mark.reason, exact=exact), awaited)

    def finish_rest(self, followed: FollowedFile) -> None:
        """End the source of a copy that is read and at rest; the copy is followed no more."""
        generation, source = followed.generation, followed.source
        assert source is not None
        assert followed.ending is not None
        exact = generation.seen >= followed.owed
        awaited = AwaitedRest.from_generation(
            source, generation, followed.ending, owed=followed.owed
        )
        self.forget(followed)
        generation.retire()
        self._end(source, GapOrEndMark(followed.ending.reason, exact=exact), awaited)

    def _stat_of(self, generation: Generation) -> FileStat | None:
        """Return the status of a file that may be closed, None if its name is gone."""
        try:
            if generation.file is not None:
                return generation.file.stat()
            stat = self._disk.stat(generation.place.name)
        except OSError:
            return None
        return stat if generation.place.is_at(stat) else None

    def _end(self, source: Source, mark: GapOrEndMark, awaited: AwaitedRest) -> None:
        start = self._registry.start_of(source)
        source.end_generation_at(mark, start, awaited.seen, self._clock.now_ms())
        self._registry.mark_changed()
        self._send_queue.enqueue(source, self._clock.monotonic())


def _note_copy(awaited: AwaitedRest, stat: FileStat) -> None:
    """Note that there is a copy of what was read, if it is of the file's last state."""
    awaited.copied |= stat.modified_ns >= awaited.modified_ns - _FRESH_NS
