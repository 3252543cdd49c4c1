"""Commits to `events` and `batches` as one, exactly once, whatever comes between the two.

`batches` is the truth: where it ends, the next run begins. The commit to `events` comes first, and
names, in its metadata, the files that the commit to `batches` will add, which are on the disk by
then. So a crash between the two is repaired by making the second one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.pipeline.bronze.tables import create_tables
from logdrive.pipeline.decode.headers import BatchRow, batches_table
from logdrive.pipeline.tables.day_files import write_day_files
from logdrive.pipeline.tables.files import AddedFile


class TablePair:
    """The two tables of one directory, open for writing: used within turns (`tables.lock`)."""

    def __init__(self, directory: str, compression: str) -> None:
        """Create the tables, or open and repair them. Raises `StorageError`."""
        self.events, self.batches = create_tables(directory)
        self._compression = compression
        # id of the last commit
        self._last: str | None = self.batches.read_last_note().get("id")
        self._finish(self.events.read_last_note())

    def take_up(self, marks: Sequence[str]) -> list[AddedFile]:
        """Go on from what other processes have committed to *marks* since the last turn.

        Returns the files that `batches` has of it. Raises `StorageError`.
        """
        rows, headers = self.events.take_up(marks), self.batches.take_up(marks)
        added = [file for commit in headers for file in commit.files]
        if headers:
            self._last = headers[-1].note.get("id")
        if rows:
            added += self._finish(rows[-1].note)
        return added

    def commit(
        self,
        files: Sequence[AddedFile],
        headers: Sequence[BatchRow],
        marks: Mapping[str, tuple[int, int]],
    ) -> None:
        """Add *files* to `events` and *headers* to `batches`, and set *marks*: ends, by name."""
        # the headers' files first: `_finish` needs them if a crash comes between the commits
        staged = write_day_files(self.batches.path, batches_table(headers), self._compression)
        commit = str(uuid4())
        faults.reach("pipeline.commit.before_events")
        note = {"id": commit, "after": self._last, "batches": [asdict(file) for file in staged]}
        self.events.add_files(files, marks, note)
        faults.reach("pipeline.commit.between")
        self.batches.add_files(staged, marks, {"id": commit})
        faults.reach("pipeline.commit.after_batches")
        self._last = commit

    def _finish(self, half: Mapping[str, Any]) -> list[AddedFile]:
        """Make the commit to `batches` that belongs to the one to `events` with the note *half*.

        Returns the files that it added: none if it had been made.
        """
        if half.get("id") == self._last:
            return []
        if half.get("after") != self._last:  # more than one half is missing: no crash does that
            raise StorageError(
                f"{self.events.path} and {self.batches.path} do not belong together: one of them "
                "was restored from a backup, or is gone; restore both from the same backup, or "
                "make them anew: `logdrive pipeline rebuild DIR --table bronze --from URI`"
            )

        # the files of headers were durable before the first half was made
        staged = [AddedFile(**file) for file in _staged_files(half["batches"])]
        self.batches.add_files(staged, half["ends"], {"id": half["id"]})
        self._last = half["id"]
        return staged


def _staged_files(noted: Any) -> list[dict[str, Any]]:
    """Return what a note says of files of headers: earlier versions had one, or None."""
    if isinstance(noted, list):
        return noted
    return [] if noted is None else [noted]
