"""Batches on their way to an S2 stream: as records, in the order of their submission.

A batch (rule R4) is its header record and the records of its run, each an S2 record without
Pravega's framing. The header record has S2 headers; the id in them is how the sink recognizes a
batch that it finds in the stream.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final
from uuid import UUID

from logdrive.model.framing import Part, split_events
from logdrive.wire.s2.limits import BATCH_BYTES, BATCH_RECORDS
from logdrive.wire.s2.records import AppendInput, Record, SequencedRecord, metered_size

SOURCE_HEADER: Final = b"logdrive-source"
"""Name of the header with the source's id, in hex."""
NUMBER_HEADER: Final = b"logdrive-number"
"""Name of the header with the source's number once the batch is stored, in decimal (rule P1)."""
BATCH_HEADER: Final = b"logdrive-batch"
"""Name of the header with the batch's id, 16 random bytes in hex."""
NO_TOKEN: Final = ""
"""The fencing token of a stream that no other writer has fenced: appends insist on it."""


class BatchTooLargeError(ValueError):
    """A batch that S2 takes in no append."""


class PendingBatch:
    """A batch until it is known to be durable; *done* is its future."""

    __slots__ = ("done", "id", "records", "size", "writer")

    def __init__(self, batch: Sequence[Part], writer: UUID, number: int, random: Random) -> None:
        """Take the batch apart. Raises `BatchTooLargeError`."""
        self.id = b"%032x" % random.getrandbits(128)
        self.writer = writer
        bodies = list(split_events(b"".join(batch)))
        headers = (
            (SOURCE_HEADER, writer.hex.encode()),
            (NUMBER_HEADER, b"%d" % number),
            (BATCH_HEADER, self.id),
        )
        self.records = (
            Record(bodies[0], headers),
            *[Record(body) for body in bodies[1:]],
        )
        self.size = sum(map(metered_size, self.records))  # metered bytes
        if len(self.records) > BATCH_RECORDS or self.size > BATCH_BYTES:
            raise BatchTooLargeError(
                f"a batch of {len(self.records)} records and {self.size} metered bytes, and an "
                f"append of S2 has at most {BATCH_RECORDS} and {BATCH_BYTES}"
            )
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(self) -> None:
        """Note that the batch is durable."""
        if not self.done.done():  # else its caller has cancelled it
            self.done.set_result(None)


class Sent:
    """One append in flight: whole batches, and the sequence number that it must get."""

    __slots__ = ("batches", "end", "size", "start")

    def __init__(self, batches: Sequence[PendingBatch], start: int) -> None:
        self.batches = batches
        self.start = start
        self.end = start + sum(len(batch.records) for batch in batches)
        self.size = sum(batch.size for batch in batches)

    def append(self) -> AppendInput:
        """Return the append. It is done only at *start*, in a stream that no one has fenced."""
        records = tuple([record for batch in self.batches for record in batch.records])
        return AppendInput(records, match_seq_num=self.start, fencing_token=NO_TOKEN)


class BatchQueue:
    """Batches in the order of their submission: first those in flight, then those that wait."""

    def __init__(self) -> None:
        self._flight: deque[Sent] = deque()
        self._waiting: deque[PendingBatch] = deque()
        self.size = 0  # metered bytes of all batches
        self.flight_bytes = 0  # metered bytes in flight

    def __len__(self) -> int:
        """Return the number of appends in flight and of batches that wait."""
        return len(self._flight) + len(self._waiting)

    @property
    def in_flight(self) -> int:
        """Appends in flight."""
        return len(self._flight)

    @property
    def first_in_flight(self) -> Sent:
        """The append that must be acknowledged next."""
        return self._flight[0]

    @property
    def last_in_flight(self) -> Sent:
        """The append that was sent last."""
        return self._flight[-1]

    @property
    def waits(self) -> bool:
        """Whether there is a batch to send."""
        return bool(self._waiting)

    def add(self, batch: PendingBatch) -> None:
        """Add a new batch behind all others."""
        self._waiting.append(batch)
        self.size += batch.size

    def send_next(self, start: int) -> Sent:
        """Move the batches that wait and fit into one append into flight, and return the append."""
        batches = [self._waiting.popleft()]
        records, size = len(batches[0].records), batches[0].size
        while self._waiting:
            following = self._waiting[0]
            records += len(following.records)
            size += following.size
            if records > BATCH_RECORDS or size > BATCH_BYTES:
                break
            batches.append(self._waiting.popleft())
        sent = Sent(batches, start)
        self._flight.append(sent)
        self.flight_bytes += sent.size
        return sent

    def acknowledge_first(self) -> None:
        """Take the first append out of flight: its batches are durable."""
        sent = self._flight.popleft()
        self.flight_bytes -= sent.size
        for batch in sent.batches:
            self._resolve(batch)

    def recall_flight(self) -> None:
        """Let what is in flight wait again, before all others and in its order."""
        for sent in reversed(self._flight):
            self._waiting.extendleft(reversed(sent.batches))
        self._flight.clear()
        self.flight_bytes = 0

    def resolve_found(self, records: Iterable[SequencedRecord]) -> int:
        """Resolve the waiting batches whose header records are among *records*; return how many."""
        ids = {
            value for record in records for name, value in record.headers if name == BATCH_HEADER
        }
        found = [batch for batch in self._waiting if batch.id in ids] if ids else []
        if found:
            self._waiting = deque(batch for batch in self._waiting if batch.id not in ids)
        for batch in found:
            self._resolve(batch)
        return len(found)

    def _resolve(self, batch: PendingBatch) -> None:
        self.size -= batch.size
        batch.resolve()
