"""Looks for batches of lost sessions in the tail of a partition."""

from collections.abc import Iterable
from typing import Final

import structlog

from logdrive.errors import TransientError
from logdrive.model.units import MIB
from logdrive.services.iggy.batches import BATCH_HEADER, PendingSend
from logdrive.services.iggy.client.session import IggyClientSession
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
)
from logdrive.wire.iggy.messages.decode import IggyMessage, decode_polled
from logdrive.wire.iggy.messages.headers import decode_headers
from logdrive.wire.iggy.replies import PartitionInfo
from logdrive.wire.iggy.requests import PollMessages

_CONSUMER: Final = Consumer(ConsumerKind.CONSUMER, 1)
_POLL_BYTES: Final = 4 * MIB  # that a poll should bring
_POLL_MESSAGES: Final = 500  # of a poll, at most: a poll is limited by their number alone
_FIRST_MESSAGES: Final = 32  # of the first poll
_log = structlog.get_logger("logdrive.sinks")


def end_of(partition: PartitionInfo) -> int:
    """Return the offset of the message that comes next.

    Of an empty partition only the offset of its newest message is known, 0 if it never had one. So
    it is too low by one if its only message was removed, and nothing is ever missed behind it.
    """
    if partition.messages or partition.current_offset:
        return partition.current_offset + 1
    return 0


class BatchSearch:
    """Finds pending batches among the messages of a partition, fed in the order of their offsets.

    A batch is found if its messages stand there whole, one behind the other: of a batch that a
    crash of the service has torn, some are missing, and it counts as not stored.
    """

    def __init__(self, batches: Iterable[PendingSend]) -> None:
        self._wanted = {batch.id: batch for batch in batches}
        self._begun: PendingSend | None = None
        self._missing: list[bytes] = []  # records of the batch begun, the next one last
        self._next = 0  # offset of the next record
        self.found: list[PendingSend] = []

    def receive_message(self, message: IggyMessage) -> None:
        """Compare the next message."""
        if self._begun is not None:
            if message.offset == self._next and message.payload == self._missing[-1]:
                self._missing.pop()
                self._step()
                return
            self._begun = None
        batch = self._wanted.get(_batch_id(message.headers)) if message.headers else None
        if batch is not None and message.payload == batch.head:
            self._begun, self._next = batch, message.offset
            self._missing = batch.records[::-1]
            self._step()

    def _step(self) -> None:
        self._next += 1
        if not self._missing and self._begun is not None:
            self.found.append(self._begun)
            del self._wanted[self._begun.id]
            self._begun = None


def _batch_id(headers: bytes) -> str:
    """Return the id in a message's user headers, "" if there is none."""
    try:
        for key, value in decode_headers(headers):
            if key.data == BATCH_HEADER.encode():
                return value.data.decode(errors="replace")
    except IggyError:
        pass  # those of another client
    return ""


async def find_stored(
    session: IggyClientSession,
    stream: str,
    topic: str,
    index: int,
    batches: Iterable[PendingSend],
    start: int,
    end: int,
) -> list[PendingSend]:
    """Return those of *batches* that are stored in [*start*, *end*) of the partition *index*.

    Raises `TransientError` and `IggyError`.
    """
    search, at, count = BatchSearch(batches), start, _FIRST_MESSAGES
    while at < end:
        strategy = PollingStrategy(PollingKind.OFFSET, at)
        count = max(1, min(count, end - at))
        polled = await session.request(
            PollMessages(_CONSUMER, stream, topic, index, strategy, count)
        )
        assert not isinstance(polled.batches, tuple), "a reply that was decoded is one part"
        try:
            messages = {one.offset: one for one in decode_polled(session.revision, polled.batches)}
        except IggyError as error:
            raise TransientError(f"{session.where}: {error}") from error
        ahead = [messages[offset] for offset in sorted(messages) if offset >= at]
        if not ahead or ahead[0].offset != at:
            _log.error(
                "messages were removed before this receiver could look for its batches among them: "
                "batches may be stored twice",
                partition=f"{stream}/{topic}/{index}",
                offset=at,
            )
        if not ahead:
            break
        for message in ahead:
            search.receive_message(message)
        at = ahead[-1].offset + 1
        size = sum(len(message.payload) for message in ahead)
        count = min(_POLL_BYTES * len(ahead) // max(1, size), 4 * count, _POLL_MESSAGES)
    return search.found
