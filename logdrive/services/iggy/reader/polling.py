"""Polls the partitions of a topic: their bounds, and their messages in large pieces.

All polls name an offset, as one consumer of no group, and store none: so a server keeps nothing of
a reader, and readers do not disturb each other.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Final, Protocol, TypeVar

from logdrive.errors import StorageError, TransientError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import Part, unframe_events
from logdrive.model.units import MIB
from logdrive.services.iggy.client.errors import MISSING_TOPIC
from logdrive.services.iggy.reader.batches import MessageCutter, MessageRun, is_marked
from logdrive.services.reader import SegmentState
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
)
from logdrive.wire.iggy.messages.decode import IggyMessage, decode_polled, polled_runs
from logdrive.wire.iggy.replies import PartitionInfo
from logdrive.wire.iggy.requests import GetTopic, IggyRequestFor, PollMessages
from logdrive.wire.iggy.revision import Revision

R = TypeVar("R")

_CONSUMER: Final = Consumer(ConsumerKind.CONSUMER, 1)
_FIRST: Final = PollingStrategy(PollingKind.FIRST)
_LAST: Final = PollingStrategy(PollingKind.LAST)
_POLL_BYTES: Final = 4 * MIB  # what a poll should bring
# Most messages of a poll. A poll is limited by their number alone, and after short ones may come
# batches of almost 1 MiB: then it brings some 250 MiB, just what a frame may have.
_POLL_MESSAGES: Final = 500
_FIRST_MESSAGES: Final = 32  # of the first poll, when nothing is known of their size
# How long a message may come after those behind it, between polls.
_LATE_SECONDS: Final = (0.05, 0.2, 0.5, 1.0)
_GROWTH: Final = 4  # times as many messages as the poll before, at most


class IggyRequester(Protocol):
    """What a reader asks of a connection to Iggy; `IggyClientSession` satisfies it."""

    @property
    def revision(self) -> Revision:
        """The revision that the server speaks."""
        ...

    async def request(self, request: IggyRequestFor[R]) -> R:
        """Return the reply to *request*. Raises `TransientError`, and `IggyError` for a refusal."""
        ...


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a topic; *index* counts from 0."""

    stream: str
    topic: str
    index: int

    @property
    def name(self) -> str:
        """Its full name as a segment, `stream/topic/index`."""
        return f"{self.stream}/{self.topic}/{self.index}"


def partition_index(segment: str) -> int:
    """Return the index of the partition with the full name *segment*."""
    return int(segment.rpartition("/")[2])


async def partition_states(service: IggyRequester, stream: str, topic: str) -> list[SegmentState]:
    """Return the states of all partitions of *topic*, by number; [] if there is no such topic.

    A partition's time of change is that of its newest message, and 0 if it has none. Costs two
    round trips for each partition, one more where retention has removed messages. Raises
    `TransientError`, and `IggyError` for requests that the service refuses.
    """
    try:
        details = await service.request(GetTopic(stream, topic))
    except IggyError as error:
        if error.reason in MISSING_TOPIC:
            return []
        raise
    if details is None:
        return []
    found = sorted(details.partitions, key=attrgetter("index"))
    return [
        await _partition_state(service, Partition(stream, topic, one.index), one) for one in found
    ]


async def _partition_state(
    service: IggyRequester, partition: Partition, info: PartitionInfo
) -> SegmentState:
    newest = await _poll_one(service, partition, _LAST) if info.messages else None
    if newest is None:  # of an empty partition that offset is told, which counts from 1 on
        end = info.current_offset + 1 if info.current_offset else 0
        return SegmentState(partition.name, end, end, sealed=False, modified_ms=0)
    length, start = newest.offset + 1, 0
    if info.messages < length:  # else none are missing
        oldest = await _poll_one(service, partition, _FIRST)
        # some servers poll the first message from offset 0, even if it was removed
        start = oldest.offset if oldest else max(0, length - info.messages)
    return SegmentState(
        partition.name, start, length, sealed=False, modified_ms=newest.timestamp // 1000
    )


async def message_at(
    service: IggyRequester, partition: Partition, offset: int
) -> IggyMessage | None:
    """Return the message at *offset*, or the first one behind it; None if there is none."""
    return await _poll_one(service, partition, PollingStrategy(PollingKind.OFFSET, offset))


async def _poll_one(
    service: IggyRequester, partition: Partition, strategy: PollingStrategy
) -> IggyMessage | None:
    polled = await _poll(service, partition, strategy, 1)
    return next(decode_polled(service.revision, polled), None)


async def _poll(
    service: IggyRequester, partition: Partition, strategy: PollingStrategy, count: int
) -> Part:
    """Return the bytes of the messages that a poll brings."""
    polled = await service.request(
        PollMessages(_CONSUMER, partition.stream, partition.topic, partition.index, strategy, count)
    )
    assert not isinstance(polled.batches, tuple), "a reply that was decoded is one part"
    return polled.batches


def _cut_runs(revision: Revision, messages: Part, wanted: int) -> list[MessageRun]:
    """Return *messages*, those from *wanted* on, in the order of their offsets, each one once."""

    @cache
    def marked() -> frozenset[int]:
        return frozenset(
            message.offset
            for message in decode_polled(revision, messages)
            if is_marked(message.headers)
        )

    pieces: list[tuple[int, list[bytes]]] = []  # offsets and payloads; no two touch
    # the first servers' order is not sure
    for run in sorted(polled_runs(revision, messages), key=attrgetter("offset")):
        payloads = unframe_events(run.events)[max(0, wanted - run.offset) :]
        if not payloads:
            continue
        if pieces and run.offset <= wanted:
            pieces[-1][1].extend(payloads)
        else:
            pieces.append((max(wanted, run.offset), payloads))
        wanted = run.offset + run.count
    return [MessageRun(offset, payloads, marked) for offset, payloads in pieces]


class PartitionReading:
    """Polls a partition's messages from one offset on, and cuts them into batches.

    `read_batches` may be called again to go on behind what it has yielded.
    """

    def __init__(self, service: IggyRequester, partition: Partition, start: int) -> None:
        """Begin at *start*, where a batch begins."""
        self._service = service
        self._partition = partition
        self._cutter = MessageCutter(partition.name, start)
        self._count = _FIRST_MESSAGES  # messages of the next poll

    @property
    def position(self) -> int:
        """Offset of the next batch."""
        return self._cutter.position

    async def read_batches(self, end: int) -> AsyncIterator[tuple[BatchRef, list[bytes]]]:
        """Yield the batches that are whole before *end*, with their records.

        Raises `TransientError`, and `StorageError` if messages were removed.
        """
        while self.position < end:
            if (found := self._cutter.next_batch()) is not None:
                yield found
            elif self._cutter.wanted < end:
                await self.receive(end)
            else:
                return

    async def next_batch(self, end: int) -> tuple[BatchRef, list[bytes]]:
        """Return the next batch, which lies before *end*.

        To see that it is torn, messages behind *end* are polled if need be. Raises
        `TransientError`, and `StorageError` if messages were removed, or no batch ends at *end*.
        """
        while (found := self._cutter.next_batch()) is None:
            await self.receive(max(end, self._cutter.wanted + 1))
        if found[0].next > end:
            raise StorageError(
                f"{self._partition.name}: no batch ends at {end}: the one at {found[0].offset} "
                "goes on"
            )
        return found

    async def receive(self, end: int) -> None:
        """Poll more messages, of those before *end*, which must be there.

        Raises `TransientError`, and `StorageError` if they were removed.
        """
        wanted = self._cutter.wanted
        runs, size = await self._poll_runs(wanted, min(self._count, end - wanted))
        if not runs:
            raise TransientError(
                f"{self._partition.name}: the messages from {wanted} to {end} are not there"
            )
        fitting = _POLL_BYTES * sum(len(run.payloads) for run in runs) // size
        self._count = max(1, min(fitting, _GROWTH * self._count, _POLL_MESSAGES))
        for run in runs:
            self._cutter.receive_run(run)

    async def _poll_runs(self, wanted: int, count: int) -> tuple[list[MessageRun], int]:
        """Return what a poll of *count* messages from *wanted* on brings, and its bytes.

        Messages that are missing before others are waited for: they may come late, and those that
        are lost are never asked for again.
        """
        strategy = PollingStrategy(PollingKind.OFFSET, wanted)
        for pause in (*_LATE_SECONDS, None):
            polled = await _poll(self._service, self._partition, strategy, count)
            runs = _cut_runs(self._service.revision, polled, wanted)
            if len(runs) == 1 and runs[0].offset == wanted:
                break
            await self._check_retained(wanted)
            if pause is None or not runs:
                break
            await asyncio.sleep(pause)
        return runs, len(polled)

    async def _check_retained(self, wanted: int) -> None:
        """Raise `StorageError` if *wanted* was removed by retention, rather than lost."""
        one = self._partition
        states = await partition_states(self._service, one.stream, one.topic)
        first = next((state.start for state in states if state.segment == one.name), 0)
        if first > wanted:
            raise StorageError(
                f"{self._partition.name}: the messages from {wanted} to {first} were "
                "removed before they were read: the next run goes on behind them; to prevent this, "
                "give the topic a longer message expiry"
            )
