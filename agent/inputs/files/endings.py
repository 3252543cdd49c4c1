"""Ends generations of files: truncated, removed, let go, or out of sight (rules G1, G3, P3).

`CloseLooks` calls it after each look at a file, and says in a table what ends when.
`EndRecorder` makes the records.
"""

from typing import Any, Final

from agent.inputs.files.copies.awaited import AwaitedRest
from agent.inputs.files.copies.copies import Copies
from agent.inputs.files.copies.judge import REST_SECONDS
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.end_recorder import EndRecorder
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.missing import MissingFiles
from agent.sources.file_log import FileLog
from agent.sources.place import FileKey
from agent.sources.source import Source
from logdrive.model.numbers import position_of
from logdrive.records.runs import LET_GO, OUT_OF_SIGHT, REMOVED, RESENT, TRUNCATED, GapOrEndMark

_CLOSED: Final = (
    "let more files stay open: max_open_files, and the system's limit (ulimit -n, LimitNOFILE)"
)
_BRIEF: Final = (
    "it was removed, or moved out of paths, before it could be opened: let files be there for a "
    "second"
)


class Endings:
    """Ends the generations of *followed* files, and removes files that are gone from that dict."""

    def __init__(
        self,
        followed: dict[FileKey, FollowedFile],
        recorder: EndRecorder,
        *,
        copies: Copies | None,
        open_files: OpenFiles,
        missing: MissingFiles,
        deleted_files: DeletedFiles,
        log: Any,
        file_log: FileLog,
    ) -> None:
        self._followed = followed  # all followed files, the tailer's own
        self._recorder = recorder  # adds end records to sources
        self._open_files = open_files  # closes files that are gone
        self._copies = copies  # None where copies are not looked for
        self._missing = missing  # closed files whose name is gone, for which scans look
        self._deleted_files = deleted_files  # files without a name that are held open
        self._log = log
        self._file_log = file_log  # warnings of which there may be one for each file

    def end_if_due(self, followed: FollowedFile, now: float) -> None:
        """Release a last event or line (P3) or end a deleted file (G1), if it is time."""
        generation, settings = followed.generation, followed.generation.settings
        quiet = now - generation.grown_at
        # the store may have said that it is a copy
        if followed.source is not None and followed.source.ending is not None:
            followed.set_ending(followed.source.ending)
        if followed.ending is not None:
            self._end_if_copied(followed, quiet)
            return
        if followed.held and generation.unnamed_since is None:
            return
        event_seconds = settings.multiline.max_seconds if settings.multiline is not None else 0.0
        if settings.multiline is not None and generation.unread and quiet >= event_seconds:
            generation.release_last_event()
        # the last line, and with it the event that it belongs to
        if generation.unread and quiet >= max(settings.quiet_seconds, event_seconds):
            generation.release_last_line()

        # a file with a name does not end: more may be written to it at any time
        if generation.unnamed_since is None:
            self._deleted_files.untrack(generation.place.key)
            return

        # writers may hold the deleted file open and go on, so it must be at rest, too
        rests = min(quiet, now - generation.unnamed_since) >= settings.end_after_seconds
        if rests and generation.release_all() and followed.source is None:
            return  # the next look sees a first line, or a longer head
        # a held file is judged again once the store has answered, unless another has all of it
        if followed.held:
            is_done = followed.covered
        else:
            is_done = followed.source is None or generation.unread == 0
        if rests and is_done:
            self.end_removed(followed, GapOrEndMark(REMOVED))
            return

        # still unread: the limits on deleted files decide
        if reason := self._deleted_files.track_unread(generation.place.key, generation.unread, now):
            about = {"unread": generation.unread, "reason": reason}
            self._file_log.warning(
                "deleted file closed before it was read", generation.place.path, **about
            )
            self.end_removed(
                followed, GapOrEndMark(REMOVED) if rests else GapOrEndMark(LET_GO, exact=False)
            )

    def on_missing(self, followed: FollowedFile) -> None:
        """Wait for scans to find a closed file whose name is gone; end it if they don't."""
        generation = followed.generation
        if followed.ending is not None:
            self._leave_copy(followed)
            return
        if not self._missing.on_file_missing(generation.place.key):
            followed.set_trouble("it is looked for under other names")
            return

        self._file_log.warning(
            "file gone while it was not open",
            generation.place.path,
            position=generation.position,
            seen=generation.seen,
            remedy=_BRIEF if not generation.seen and self._open_files.has_room else _CLOSED,
        )
        self.end_removed(followed, GapOrEndMark(OUT_OF_SIGHT, exact=False))

    def end_truncated(self, followed: FollowedFile) -> None:
        """End the generation of a truncated file, and start the next one (rule G3).

        Look at the file afterwards: the next generation may have data.
        """
        old, source, head = followed.generation, followed.source, followed.head
        # what replaces the bytes of a copy is found by a scan
        if followed.ending is not None:
            self._leave_copy(followed)
            return

        held, covered = followed.held, followed.covered
        followed.start_generation(old.make_successor())
        mark = GapOrEndMark(TRUNCATED, exact=False)
        if not held:
            self._end(old, source, head, mark)
        elif not covered:
            self._end(old, self._recorder.make_source(old, head, followed.counting), head, mark)
        self._log.info("file truncated", path=old.place.path, position=old.position, seen=old.seen)

    def end_resent(self, followed: FollowedFile) -> None:
        """End the generation of a file that an operator has sent again, and start the next (A4).

        It ends where what is in flight ends: what follows comes with the next count. Look at the
        file afterwards.
        """
        old, source, head = followed.generation, followed.source, followed.head
        assert source is not None, "only a source can be sent again"
        source.drop_unsent_runs()
        followed.start_generation(old.make_successor())
        followed.mark_no_copy()
        old.end_at(position_of(source.cursor))
        self._recorder.record_end(old, source, head, GapOrEndMark(RESENT))
        self._log.info("file is sent again", path=old.place.path, position=old.position)

    def end_removed(self, followed: FollowedFile, mark: GapOrEndMark) -> None:
        """End the generation of a file that is gone as *mark* says, and follow it no more."""
        if followed.ending is not None:
            self._leave_copy(followed)
            return
        self.drop(followed)
        generation = followed.generation
        generation.retire()
        source, head = followed.source, followed.head
        if not followed.held:
            self._end(generation, source, head, mark)
        elif not followed.covered:
            source = self._recorder.make_source(generation, head, followed.counting)
            self._end(generation, source, head, mark)
        self._log.info(
            "file removed",
            path=generation.place.path,
            position=generation.position,
            seen=generation.seen,
        )

    def drop(self, followed: FollowedFile) -> None:
        """Close a file, and remove it from those that are followed."""
        generation = followed.generation
        key = generation.place.key
        self._open_files.close_file(generation)
        self._missing.on_file_found(key)
        self._deleted_files.untrack(key)
        followed.drop()
        # the key may belong to another file already
        if self._followed.get(key) is followed:
            del self._followed[key]

    def unfollow(self, followed: FollowedFile) -> None:
        """Follow a file no more; what becomes of its source is the caller's."""
        self.drop(followed)
        followed.generation.retire()

    def _end(
        self, generation: Generation, source: Source | None, head: bytes, mark: GapOrEndMark
    ) -> None:
        """End a generation that can't be read any more; a copy may have what was not read of it."""
        unknown = not mark.exact or generation.unread > 0
        if self._copies is not None and source is not None and unknown:
            self._copies.await_rest(AwaitedRest.from_generation(source, generation, mark))
        else:
            self._recorder.record_end(generation, source, head, mark)

    def _end_if_copied(self, followed: FollowedFile, quiet: float) -> None:
        """End the source of a copy once that is read and does not grow any more (rule G5)."""
        generation = followed.generation
        assert self._copies is not None, "only it makes copies"
        if _is_over(followed):
            self._copies.forget(followed)
        elif quiet < REST_SECONDS:
            return
        # its application may have written NULs at its end: that file is gone, so they are all
        elif generation.unread or generation.release_all():
            generation.release_last_line()
        else:
            self._copies.finish_rest(followed)

    def _leave_copy(self, followed: FollowedFile) -> None:
        """Look for another copy: this one is gone, or has changed."""
        assert self._copies is not None, "only it makes copies"
        if _is_over(followed):
            self._copies.forget(followed)
        else:
            self._copies.await_again(followed)


def _is_over(followed: FollowedFile) -> bool:
    """Return whether the source of a copy has ended already."""
    source = followed.source
    return source is None or source.ended is not None or followed.generation.retired
