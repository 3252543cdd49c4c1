"""Ends generations of files: truncated, removed, let go, or out of sight (rules G1, G3, P3).

`Tailer` calls it after each close look at a file; the table in `tail.py` says what ends when.
`EndRecorder` makes the records.
"""

from typing import Any

from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.end_recorder import EndRecorder
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.missing import MissingFiles
from agent.inputs.files.open_files import OpenFiles
from agent.sources.file_log import FileLog
from agent.sources.place import FileKey
from logdrive.records.runs import LET_GO, OUT_OF_SIGHT, REMOVED, TRUNCATED, GapOrEndMark


class Endings:
    """Ends the generations of *followed* files, and removes files that are gone from that dict."""

    def __init__(
        self,
        followed: dict[FileKey, FollowedFile],
        recorder: EndRecorder,
        *,
        open_files: OpenFiles,
        missing: MissingFiles,
        deleted_files: DeletedFiles,
        log: Any,
        file_log: FileLog,
    ) -> None:
        self._followed = followed  # all followed files, the tailer's own
        self._recorder = recorder  # adds end records to sources
        self._open_files = open_files  # closes files that are gone
        self._missing = missing  # closed files whose name is gone, for which scans look
        self._deleted_files = deleted_files  # files without a name that are held open
        self._log = log
        self._file_log = file_log  # warnings of which there may be one for each file

    def end_if_due(self, followed: FollowedFile, now: float) -> None:
        """Release a last line without newline (P3) or end a deleted file (G1), if it is time."""
        generation, settings = followed.generation, followed.generation.settings
        quiet = now - generation.grown_at
        if generation.unread and quiet >= settings.quiet_seconds:
            generation.release_last_line()

        # a file with a name does not end: more may be written to it at any time
        if generation.unnamed_since is None:
            self._deleted_files.untrack(generation.place.key)
            return

        # writers may hold the deleted file open and go on, so it must be at rest, too
        rests = min(quiet, now - generation.unnamed_since) >= settings.end_after_seconds
        if rests:
            generation.release_last_line()
        if rests and (followed.source is None or generation.unread == 0):
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
        if not self._missing.on_file_missing(generation.place.key):
            followed.set_trouble("it is looked for under other names")
            return

        self._file_log.warning(
            "file gone while it was not open",
            generation.place.path,
            position=generation.position,
            seen=generation.seen,
            remedy="let more files stay open: max_open_files, and the system's limit (ulimit -n, "
            "LimitNOFILE)",
        )
        self.end_removed(followed, GapOrEndMark(OUT_OF_SIGHT, exact=False))

    def end_truncated(self, followed: FollowedFile) -> None:
        """End the generation of a truncated file, and start the next one (rule G3).

        Look at the file afterwards: the next generation may have data.
        """
        old, source, head = followed.generation, followed.source, followed.head
        followed.start_generation(old.make_successor())
        self._recorder.record_end(old, source, head, GapOrEndMark(TRUNCATED, exact=False))
        self._log.info("file truncated", path=old.place.path, position=old.position, seen=old.seen)

    def end_removed(self, followed: FollowedFile, mark: GapOrEndMark) -> None:
        """End the generation of a file that is gone as *mark* says, and follow it no more."""
        generation = followed.generation
        key = generation.place.key
        self._open_files.close_file(generation)
        self._missing.on_file_found(key)
        self._deleted_files.untrack(key)
        followed.drop()
        # the key may belong to another file already
        if self._followed.get(key) is followed:
            del self._followed[key]

        generation.retire()
        self._recorder.record_end(generation, followed.source, followed.head, mark)
        self._log.info(
            "file removed",
            path=generation.place.path,
            position=generation.position,
            seen=generation.seen,
        )
