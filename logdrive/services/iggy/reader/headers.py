"""Headers of the batches in a partition of Iggy (rules R4, R5).

Iggy polls whole messages, by their number. And only who has seen every message knows that a batch
is not torn. So all messages are read, and only the headers are kept.
"""

from collections.abc import Sequence

from logdrive.model.batch_walker import BatchRef
from logdrive.model.record_walker import batch_at_record
from logdrive.services.batch_budget import BatchBudget
from logdrive.services.iggy.reader.polling import (
    IggyRequester,
    Partition,
    PartitionReading,
    message_at,
)
from logdrive.services.known_headers import count_known
from logdrive.services.reader import HeaderDigest, SegmentState


async def read_batch_refs(
    service: IggyRequester, partition: Partition, start: int, end: int, budget: BatchBudget
) -> list[BatchRef]:
    """Return references to the batches that lie whole in [*start*, *end*), in order.

    *start* is where a batch begins, *budget* is a new one. Raises `TransientError`, and
    `StorageError` if messages were removed.
    """
    found = list[BatchRef]()
    async for batch, _ in PartitionReading(service, partition, start).read_batches(end):
        if not budget.admits(batch):
            break
        found.append(batch)
    return found


async def count_known_messages(
    service: IggyRequester, partition: Partition, marks: Sequence[HeaderDigest], state: SegmentState
) -> int:
    """Return how many of *marks*, from the first on, still match the partition (rule R5).

    *marks* are ordered by offset; few of them are read. Raises `TransientError`.
    """
    return await count_known(marks, lambda mark: _matches(service, partition, mark, state))


async def _matches(
    service: IggyRequester, partition: Partition, mark: HeaderDigest, state: SegmentState
) -> bool:
    if not state.start <= mark.offset < state.length:
        return False
    message = await message_at(service, partition, mark.offset)
    if message is None:
        return False
    if message.offset > mark.offset:  # lost: so it was when the mark was made
        return mark.crc == 0
    return batch_at_record(message.offset, message.payload).crc == mark.crc
