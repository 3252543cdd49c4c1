"""When the index of a numbered segment is written, and with what (docs/adr/0024)."""

from typing import Final

from logdrive.services.numbering.checkpoint import Checkpoints, IndexSnapshot
from logdrive.services.numbering.view import View
from logdrive.store.engine import Store

_SAVE_ROWS: Final = 64
"""Rows of the index after which it is written; a start walks over what came after that."""


class IndexWriter:
    """Writes the index of one segment from its view. One caller at a time may write."""

    def __init__(self, store: Store, segment: str, view: View) -> None:
        self._store = store
        self._segment = segment
        self._view = view
        self._checkpoints = Checkpoints(store, segment)
        # an offset where the view ended once, and the events that the store counted up to there
        self._counted = (0, 0)
        # of the index as it was written last: where it ends, its count of rows, and whether the
        # store's count agreed
        self._written = (0, 1, True)

    def load(self) -> IndexSnapshot | None:
        """Return the last durable index; None if there is none that fits the segment.

        Raises `StorageError` if it is damaged.
        """
        return self._checkpoints.load()

    def on_restored(self, checkpoint: IndexSnapshot) -> None:
        """Note that *checkpoint*, which is durable, is in the view."""
        self._counted = (checkpoint.end.offset, checkpoint.events)
        self._note_written(checkpoint, len(self._view.rows))

    @property
    def is_complete(self) -> bool:
        """Whether the index was written up to the view's end."""
        return self._view.end.offset == self._written[0]

    @property
    def is_due(self) -> bool:
        """Whether the index must be written: it is far behind, or must say more than it does."""
        _, rows, agreed = self._written
        events = self.events()
        # whether the store's count can be relied on: see `logdrive.services.numbering.recover`
        turned = events >= 0 and (events == self._view.end.seq_num) != agreed
        return len(self._view.rows) - rows >= _SAVE_ROWS or turned

    def events(self) -> int:
        """Return how many events the store counted up to the view's end; -1 if it is not known."""
        end, info = self._view.end.offset, self._store.info(self._segment)
        if info is not None and info.length == end:
            self._counted = (end, info.events)
        offset, events = self._counted
        return events if offset == end else -1

    def count_agrees(self) -> bool:
        """Return whether the store counted as many events up to the view's end as it has."""
        return self.events() == self._view.end.seq_num

    async def write(self, *, whole: bool = False, trim_point: int = 0) -> None:
        """Write the index, with *trim_point* if that is more than the view's.

        *whole* writes all rows, since the first ones changed. Raises `StorageError`,
        `TransientError`, and `NoSuchSegmentError` if the segment is deleted meanwhile.
        """
        view, rows = self._view, len(self._view.rows)
        checkpoint = IndexSnapshot(
            self._store.incarnation(self._segment),
            view.end,
            self.events(),
            view.token,
            max(view.trim_point, trim_point),
            view.rows,
        )
        await self._checkpoints.write(checkpoint, whole=whole)
        self._note_written(checkpoint, rows)

    def _note_written(self, checkpoint: IndexSnapshot, rows: int) -> None:
        agreed = checkpoint.events == checkpoint.end.seq_num
        self._written = (checkpoint.end.offset, rows, agreed)
