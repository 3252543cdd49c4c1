"""Batches in the records of an S2 stream, sans I/O (rules R4, R5).

One record is one event, without Pravega's framing. Offsets are sequence numbers.
"""

from collections.abc import Sequence

from logdrive.errors import StorageError, TransientError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.record_walker import batch_at_record
from logdrive.wire.s2.records import SequencedRecord


def batch_at(record: SequencedRecord) -> BatchRef:
    """Return the batch that begins with *record*, which stands where a batch begins.

    The headers of S2's own that a record has play no part, but for those of a command.
    """
    if len(record.headers) == 1 and not record.headers[0][0]:
        return batch_at_record(
            record.seq_num, record.headers[0][1] + b" " + record.body, command=True
        )
    return batch_at_record(record.seq_num, record.body)


def check_place(stream: str, place: int, records: Sequence[SequencedRecord]) -> None:
    """Check that *records*, read from *place* on, begin there.

    Raises `StorageError` if records were removed, `TransientError` for any other answer.
    """
    if not records or records[0].seq_num == place:
        return
    if records[0].seq_num < place:
        raise TransientError(f"{stream}: asked from {place} on, and got {records[0].seq_num}")
    raise StorageError(
        f"{stream}: the records from {place} to {records[0].seq_num} were removed before they were "
        "read: the next run goes on behind them; to prevent this, give the stream a longer "
        "retention"
    )


class BatchCutter:
    """Cuts the records of a stream into batches, in order.

    Feed it with `receive_records`, then call `next_batch` until it returns None.
    """

    def __init__(self, stream: str, position: int) -> None:
        """Begin at *position*, where a batch begins in *stream*; the name is for errors."""
        self._stream = stream
        self._records: list[SequencedRecord] = []
        self._at = 0  # index of the record at *position*

        self.position = position
        """Offset at which the next batch begins."""

    @property
    def wanted(self) -> int:
        """Offset of the next record to receive."""
        return self.position + len(self._records) - self._at

    def receive_records(self, records: Sequence[SequencedRecord]) -> None:
        """Add *records*, which follow those received before. Raises as `check_place` does."""
        check_place(self._stream, self.wanted, records)
        self._records = [*self._records[self._at :], *records]
        self._at = 0

    def next_batch(self) -> tuple[BatchRef, list[bytes]] | None:
        """Return the next batch with its records and step behind it; None until all are there."""
        if self._at == len(self._records):
            return None
        batch = batch_at(self._records[self._at])
        end = self._at + batch.next - batch.offset
        if end > len(self._records):
            return None
        bodies = [record.body for record in self._records[self._at + 1 : end]]
        self._at, self.position = end, batch.next
        return batch, bodies
