"""Batches in the messages of a partition of Iggy, sans I/O (rules R4, R5).

One message is one event, without Pravega's framing, and offsets count messages. A receiver's sink
marks the first message of each batch with a user header, so that a batch of which a server lost the
end is told from one whose records are the messages behind it (docs/adr/0027): the real servers lose
what they acknowledged if they are killed, unless they are configured otherwise.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from logdrive.errors import TransientError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.record_walker import batch_at_record, torn_batch

# the key of a sink's user header as it is stored, its kind (text) and length before it
_MARK: Final = b"\x02\x0e\0\0\0logdrive-batch"


class PartitionMessage(NamedTuple):
    """A message of a partition."""

    offset: int
    payload: bytes
    begins: bool
    """Whether a sink marked it as the first message of a batch."""


def is_marked(user_headers: bytes) -> bool:
    """Return whether *user_headers*, with typed keys, are those of a batch's first message."""
    return _MARK in user_headers


class MessageCutter:
    """Cuts the messages of a partition into batches, in order.

    Feed it with `receive_messages`, then call `next_batch` until it returns None.
    """

    def __init__(self, partition: str, position: int) -> None:
        """Begin at *position*, where a batch begins in *partition*; the name is for errors."""
        self._partition = partition
        self._messages: list[PartitionMessage] = []
        self._at = 0  # index of the first message that is in no batch yet

        self.position = position
        """Offset at which the next batch begins."""
        self.wanted = position
        """Offset of the next message to receive."""

    def receive_messages(self, messages: Sequence[PartitionMessage]) -> None:
        """Add *messages*, in the order of their offsets, polled from `wanted` on.

        Offsets may be missing: those messages are lost. Raises `TransientError` for a message from
        before `wanted`.
        """
        if messages and messages[0].offset < self.wanted:
            raise TransientError(
                f"{self._partition}: polled from {self.wanted} on, and got {messages[0].offset}"
            )
        self._messages = [*self._messages[self._at :], *messages]
        self._at = 0
        if messages:
            self.wanted = messages[-1].offset + 1

    def next_batch(self) -> tuple[BatchRef, list[bytes]] | None:
        """Return the next batch with its records and step behind it; None until all are there.

        What is left of a torn batch is one batch without records, and so are messages that are
        lost.
        """
        if self._at == len(self._messages):
            return None
        first = self._messages[self._at]
        if first.offset > self.position:
            return self._step(torn_batch(self.position, first.offset, []), [], 0)

        batch = batch_at_record(first.offset, first.payload)
        count = batch.next - batch.body
        following = self._messages[self._at + 1 : self._at + 1 + count]
        for index, message in enumerate(following):
            if message.begins or message.offset != batch.body + index:
                return self._step_torn(first, following[:index])
        if len(following) < count:
            return None

        records = [message.payload for message in following]
        size = EVENT_HEAD * count + sum(map(len, records))
        if batch.header is not None and size != batch.header.size:
            return self._step_torn(first, [])  # what follows are no records of this header
        return self._step(batch, records, 1 + count)

    def _step_torn(
        self, first: PartitionMessage, records: Sequence[PartitionMessage]
    ) -> tuple[BatchRef, list[bytes]]:
        payloads = [first.payload, *(record.payload for record in records)]
        end = first.offset + len(payloads)
        return self._step(torn_batch(first.offset, end, payloads), [], len(payloads))

    def _step(
        self, batch: BatchRef, records: list[bytes], messages: int
    ) -> tuple[BatchRef, list[bytes]]:
        """Step behind *batch*, which has so many messages."""
        self._at += messages
        self.position = batch.next
        return batch, records
