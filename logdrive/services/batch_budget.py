"""The limits on one list of batches, as `ServiceReader.read_batch_refs` takes them."""

from logdrive.model.batch_walker import BatchRef


class BatchBudget:
    """Counts batches against *most* stored bytes and *most_raw* raw bytes; None: no limit."""

    def __init__(self, most: int | None, most_raw: int | None) -> None:
        self._most = most
        self._most_raw = most_raw
        # what all batches that were admitted have
        self._size = 0
        self._raw_size = 0
        self._empty = True

    def admits(self, batch: BatchRef) -> bool:
        """Return whether *batch* is within the limits, with all that were admitted before it.

        The first batch is admitted in any case: else a reader that meets a large one never goes on.
        """
        self._size += batch.size
        self._raw_size += batch.raw_size
        if self._empty:
            self._empty = False
            return True
        return (self._most is None or self._size <= self._most) and (
            self._most_raw is None or self._raw_size <= self._most_raw
        )
