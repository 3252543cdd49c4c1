"""Reads a topic of Iggy for a person: its counts, and its lines as they were written."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final

from logdrive.model.batch_walker import BatchRef
from logdrive.services.iggy.reader.polling import (
    IggyRequester,
    Partition,
    PartitionReading,
    partition_index,
    partition_states,
)
from logdrive.services.lines import SegmentContents
from logdrive.services.reader import SegmentState
from logdrive.services.record_lines import BatchLines, OnFault, count_batches
from logdrive.services.whole_lines import SourceText

_FOLLOW_SECONDS: Final = 0.2  # between two looks at a topic to which nothing is sent


async def count_partition(
    service: IggyRequester, partition: Partition, state: SegmentState
) -> SegmentContents:
    """Count batches, events and sources of a partition; reads all of it. Raises `TransientError`.

    A message where a header should be counts as a batch.
    """
    batches = read_records(service, partition, state.start, state.length)
    return await count_batches((batch async for batch, _ in batches), state)


def read_records(
    service: IggyRequester, partition: Partition, start: int, end: int
) -> AsyncIterator[tuple[BatchRef, list[bytes]]]:
    """Yield the batches that lie whole in [*start*, *end*), each with its records."""
    return PartitionReading(service, partition, start).read_batches(end)


class _PartitionLines:
    """The lines of one partition, from where the last call has ended."""

    def __init__(
        self, service: IggyRequester, partition: Partition, start: int, on_fault: OnFault
    ) -> None:
        self._reading = PartitionReading(service, partition, start)
        read_again = partial(read_records, service, partition)
        self._lines = BatchLines(partition.name, read_again, "records", on_fault)

    async def read_to(self, end: int) -> AsyncIterator[SourceText]:
        """Yield the lines of the batches that are whole before *end*."""
        async for batch, records in self._reading.read_batches(end):
            for text in await self._lines.texts_of(batch, records):
                yield text


async def read_topic_lines(
    service: IggyRequester,
    stream: str,
    topic: str,
    *,
    follow: bool,
    sleep: Callable[[float], Awaitable[None]],
    on_fault: OnFault,
) -> AsyncIterator[SourceText]:
    """Yield the lines of a topic, partition after partition, in chunks of a batch.

    With *follow* it goes on with what is sent to any partition, also to new ones, for ever. Raises
    `TransientError` if the connection is lost.
    """
    lines: dict[str, _PartitionLines] = {}
    while True:
        some = False
        for state in await partition_states(service, stream, topic):
            partition = Partition(stream, topic, partition_index(state.segment))
            if state.segment not in lines:
                lines[state.segment] = _PartitionLines(service, partition, state.start, on_fault)
            async for text in lines[state.segment].read_to(state.length):
                some = True
                yield text
        if not follow:
            return
        if not some:
            await sleep(_FOLLOW_SECONDS)
