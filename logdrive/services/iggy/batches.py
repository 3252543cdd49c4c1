"""Batches on their way to a topic of Iggy: as messages, in the order of their submission.

A batch (rule R4) is its header record and the records of its run, one message each, without
Pravega's framing. The header record has user headers; the id in them is how the sink recognizes a
batch that it finds in the partition, and how readers tell where one begins (docs/adr/0027).
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.model.framing import EVENT_HEAD, Part, event_size, split_events
from logdrive.model.units import MIB
from logdrive.wire.iggy.identifiers import ToPartition
from logdrive.wire.iggy.messages.envelope import StoredMessage, encode_event
from logdrive.wire.iggy.messages.headers import HeaderKind, encode_headers, header
from logdrive.wire.iggy.messages.sending import encode_sent_events
from logdrive.wire.iggy.requests import SendMessages
from logdrive.wire.iggy.revision import Revision

SOURCE_HEADER: Final = "logdrive-source"
"""Name of the user header with the source's id, in hex."""
NUMBER_HEADER: Final = "logdrive-number"
"""Name of the user header with the source's number once the batch is stored (rule P1), a uint64."""
BATCH_HEADER: Final = "logdrive-batch"
"""Name of the user header with the batch's id, 16 random bytes in hex."""
SEND_BYTES: Final = MIB  # of a send that has more than one batch
SEND_MESSAGES: Final = 1000  # of a send that has more than one batch


class PendingSend:
    """A batch until it is known to be durable; *done* is its future, *index* its partition."""

    __slots__ = ("done", "events", "head", "id", "index", "messages", "sent", "stored")

    def __init__(
        self,
        batch: Sequence[Part],
        messages: int,
        writer: UUID,
        number: int,
        index: int,
        random: Random,
    ) -> None:
        """Give the first of so many *messages* its user headers."""
        self.id = f"{random.getrandbits(128):032x}"
        self.index = index
        self.messages = messages
        events = b"".join(batch)
        end = event_size(events, 0)
        self.head = events[EVENT_HEAD:end]  # the header record
        marked = encode_event(StoredMessage(self.head, self._headers(writer, number)))
        self.events = marked + events[end:]
        # whether it was ever sent, and whether it is durable, though one before it may not be
        self.sent = self.stored = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _headers(self, writer: UUID, number: int) -> bytes:
        return encode_headers(
            (
                header(SOURCE_HEADER, writer.hex),
                header(NUMBER_HEADER, number, HeaderKind.UINT64),
                header(BATCH_HEADER, self.id),
            )
        )

    @property
    def records(self) -> list[bytes]:
        """The payloads of the messages behind the first."""
        return list(split_events(self.events, event_size(self.events, 0)))

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.events)

    def fail(self, error: TransientError) -> None:
        """Note that the batch can't be stored."""
        if not self.done.done():
            self.done.set_exception(error)

    def resolve(self) -> None:
        """Note that the batch is durable, and all before it."""
        if not self.done.done():  # else its caller has cancelled it
            self.done.set_result(None)


class IggySend:
    """One send in flight: whole batches, all to the partition *index*."""

    __slots__ = ("batches", "index", "messages", "size")

    def __init__(self, batches: Sequence[PendingSend]) -> None:
        self.batches = batches
        self.index = batches[0].index
        self.messages = sum(batch.messages for batch in batches)
        self.size = sum(batch.size for batch in batches)

    def request(
        self, revision: Revision, stream: str, topic: str, *, origin_us: int
    ) -> SendMessages:
        """Return the request, with the messages as the revision has them."""
        events = b"".join([batch.events for batch in self.batches])
        messages, count = encode_sent_events(revision, events, origin_us=origin_us)
        announced = count if revision >= Revision.R2A else None
        return SendMessages(stream, topic, ToPartition(self.index), messages, announced)


class IggySendQueue:
    """Batches of all partitions: those in flight, then those that wait.

    Batches of a partition are sent, and resolved, in the order of their submission.
    """

    def __init__(self) -> None:
        self._flight: deque[IggySend] = deque()
        # by partition: what waits, and what is not resolved
        self._waiting: dict[int, deque[PendingSend]] = {}
        self._unresolved: dict[int, deque[PendingSend]] = {}
        self.size = 0  # bytes of all batches
        self.flight_bytes = 0  # bytes in flight

    @property
    def in_flight(self) -> int:
        """Sends in flight."""
        return len(self._flight)

    @property
    def waits(self) -> bool:
        """Whether there is a batch to send."""
        return bool(self._waiting)

    def add(self, batch: PendingSend) -> None:
        """Add a new batch behind all others of its partition."""
        self._waiting.setdefault(batch.index, deque()).append(batch)
        self._unresolved.setdefault(batch.index, deque()).append(batch)
        self.size += batch.size

    def send_next(self) -> IggySend:
        """Move what waits for a partition and fits into one send into flight; return the send.

        The partitions take turns.
        """
        index = next(iter(self._waiting))
        waiting = self._waiting.pop(index)
        batches = [waiting.popleft()]
        messages, size = batches[0].messages, batches[0].size
        while waiting:
            messages += waiting[0].messages
            size += waiting[0].size
            if messages > SEND_MESSAGES or size > SEND_BYTES:
                break
            batches.append(waiting.popleft())
        if waiting:
            self._waiting[index] = waiting  # behind the others
        for batch in batches:
            batch.sent = True
        send = IggySend(batches)
        self._flight.append(send)
        self.flight_bytes += send.size
        return send

    def acknowledge_first(self) -> IggySend:
        """Take the first send out of flight: its batches are durable. Return it."""
        send = self._flight.popleft()
        self.flight_bytes -= send.size
        self._store(send.batches)
        return send

    def recall_flight(self) -> None:
        """Let what is in flight wait again, before all others of its partition, in its order."""
        for send in reversed(self._flight):
            waiting = self._waiting.setdefault(send.index, deque())
            waiting.extendleft(reversed(send.batches))
        self._flight.clear()
        self.flight_bytes = 0

    def in_doubt(self) -> dict[int, list[PendingSend]]:
        """Return the waiting batches that were sent before, by partition: some may be stored."""
        sent = {
            index: [batch for batch in waiting if batch.sent]
            for index, waiting in self._waiting.items()
        }
        return {index: batches for index, batches in sent.items() if batches}

    def resolve_found(self, found: Iterable[PendingSend]) -> None:
        """Note that waiting batches are durable."""
        batches = list(found)
        for batch in batches:
            batch.stored = True
        for index in {batch.index for batch in batches}:
            left = deque(batch for batch in self._waiting[index] if not batch.stored)
            if left:
                self._waiting[index] = left
            else:
                del self._waiting[index]
        self._store(batches)

    def fail_waiting(self, index: int, error: TransientError) -> None:
        """Give up what waits for the partition *index*."""
        waiting = self._waiting.pop(index, None)
        if waiting is None:
            return
        given_up = {batch.id for batch in waiting}
        left = deque(batch for batch in self._unresolved[index] if batch.id not in given_up)
        self._unresolved[index] = left
        for batch in waiting:
            self.size -= batch.size
            batch.fail(error)
        if not left:
            del self._unresolved[index]

    def _store(self, batches: Iterable[PendingSend]) -> None:
        """Note that *batches* are durable; resolve those of which all before them are, too."""
        indexes = dict[int, None]()
        for batch in batches:
            batch.stored = True
            indexes[batch.index] = None
        for index in indexes:
            unresolved = self._unresolved[index]
            while unresolved and unresolved[0].stored:
                batch = unresolved.popleft()
                self.size -= batch.size
                batch.resolve()
            if not unresolved:
                del self._unresolved[index]
