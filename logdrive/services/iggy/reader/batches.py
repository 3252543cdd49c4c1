"""Batches in the messages of a partition of Iggy, sans I/O (rules R4, R5).

One message is one event, without Pravega's framing, and offsets count messages. A receiver's sink
marks the first message of each batch with a user header, so that a batch of which a server lost the
end is told from one whose records are the messages behind it (docs/adr/0027): the real servers lose
what they acknowledged if they are killed, unless they are configured otherwise.
"""

from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from logdrive.errors import TransientError
from logdrive.model.batch import HEADER_PREFIX
from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.record_walker import batch_at_record, torn_batch
from logdrive.services.iggy.batches import BATCH_HEADER
from logdrive.wire.iggy.messages.headers import HeaderKind

# the key of a sink's user header as it is stored, its kind (text) and length before it
_MARK: Final = b"%c%b%b" % (
    HeaderKind.STRING,
    len(BATCH_HEADER).to_bytes(4, "little"),
    BATCH_HEADER.encode(),
)


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Messages of a partition with consecutive offsets."""

    offset: int
    """Of the first one."""
    payloads: Sequence[bytes]
    marked: Callable[[], AbstractSet[int]]
    """Returns the offsets of those that a sink marked as the first of a batch; may be costly."""

    @property
    def end(self) -> int:
        """Offset behind the last one."""
        return self.offset + len(self.payloads)


def is_marked(user_headers: bytes) -> bool:
    """Return whether *user_headers*, with typed keys, are those of a batch's first message."""
    return _MARK in user_headers


class MessageCutter:
    """Cuts the messages of a partition into batches, in order.

    Feed it with `receive_run`, then call `next_batch` until it returns None. Costs a step of Python
    for each message.
    """

    def __init__(self, partition: str, position: int) -> None:
        """Begin at *position*, where a batch begins in *partition*; the name is for errors."""
        self._partition = partition
        self._runs: deque[MessageRun] = deque()  # with messages from *position* on

        self.position = position
        """Offset at which the next batch begins."""
        self.wanted = position
        """Offset of the next message to receive."""

    def receive_run(self, run: MessageRun) -> None:
        """Add messages, which were polled from `wanted` on.

        Those between are lost. Raises `TransientError` for messages from before `wanted`.
        """
        if run.offset < self.wanted:
            raise TransientError(
                f"{self._partition}: polled from {self.wanted} on, and got {run.offset}"
            )
        self._runs.append(run)
        self.wanted = run.end

    def next_batch(self) -> tuple[BatchRef, list[bytes]] | None:
        """Return the next batch with its records and step behind it; None until all are there.

        What is left of a torn batch is one batch without records, and so are messages that are
        lost.
        """
        if not self._runs:
            return None
        first = self._runs[0]
        if first.offset > self.position:
            return self._step(torn_batch(self.position, first.offset, []), [])

        batch = batch_at_record(self.position, first.payloads[self.position - first.offset])
        count = batch.next - batch.body
        records, lost = self._records(batch.body, count)
        left = self._records_before_a_mark(batch.body, records)
        if left < len(records) or lost:
            return self._step_torn(batch, records[:left])
        if len(records) < count:
            return None

        size = EVENT_HEAD * count + sum(map(len, records))
        if batch.header is not None and size != batch.header.size:
            return self._step_torn(batch, [])  # what follows are no records of this header
        return self._step(batch, records)

    def _records(self, start: int, count: int) -> tuple[list[bytes], bool]:
        """Return up to *count* messages from *start* on, and whether one behind them is lost."""
        found: list[bytes] = []
        for run in self._runs:
            at = start + len(found)
            if len(found) == count or run.offset > at:
                return found, len(found) < count
            found += run.payloads[at - run.offset : at - run.offset + count - len(found)]
        return found, False

    def _records_before_a_mark(self, start: int, records: Sequence[bytes]) -> int:
        """Return how many of *records*, from *start* on, come before one that begins a batch."""
        for index, record in enumerate(records):
            # only what looks like a header can be marked; few records do
            if record.startswith(HEADER_PREFIX) and self._is_marked(start + index):
                return index
        return len(records)

    def _is_marked(self, offset: int) -> bool:
        return any(offset in run.marked() for run in self._runs if run.offset <= offset < run.end)

    def _step_torn(self, batch: BatchRef, records: Sequence[bytes]) -> tuple[BatchRef, list[bytes]]:
        end = batch.body + len(records)
        return self._step(torn_batch(batch.offset, end, [batch.payload, *records]), [])

    def _step(self, batch: BatchRef, records: list[bytes]) -> tuple[BatchRef, list[bytes]]:
        self.position = batch.next
        while self._runs and self._runs[0].end <= self.position:
            self._runs.popleft()
        return batch, records
