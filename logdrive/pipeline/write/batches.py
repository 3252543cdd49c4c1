"""Cuts records into foreign batches with numbers (rules R3, R4, R6), the same ones each time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID, uuid5
from zlib import crc32

import msgspec

from logdrive.errors import StorageError
from logdrive.model.batch import BatchHeader
from logdrive.model.framing import EVENT_HEAD, frame_event, frame_events
from logdrive.model.limits import EVENT_BYTES, RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.model.pieces import EventPiece, piece_ranges
from logdrive.pipeline.decode.schema import FOREIGN
from logdrive.pipeline.write.numbers import number_of_append

_NO_MARK = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """One append of a micro-batch, and the number that its writer has once it is stored."""

    number: int
    data: bytes  # header and records, framed
    events: int  # Pravega events in it, the header included
    rows: int  # that end in it


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """What all batches of a writer say of it."""

    writer: UUID
    """The writer's id, and the source of its batches."""
    store: str
    """Id of the store."""
    peer: msgspec.Raw
    """Who writes, as JSON."""


def cut_batches(
    records: Iterable[bytes], origin: BatchOrigin, epoch: int, received: int
) -> Iterator[NumberedBatch]:
    """Yield the batches of *records*, which are all of micro-batch *epoch*.

    *received* is in ms since 1970. Raises `StorageError` for a record of more than 16 MiB.
    """
    cut = _BatchCutter(origin, epoch, received)
    held: list[bytes] = []
    size = 0
    for record in records:
        framed = EVENT_HEAD + len(record)
        if held and (size + framed > RUN_BYTES or len(held) == RUN_RECORDS):
            yield cut.batch(held)
            held, size = [], 0
        if len(record) > RECORD_BYTES:
            if held:  # rows stay in order
                yield cut.batch(held)
                held, size = [], 0
            yield from cut.pieces(record)
            continue
        held.append(record)
        size += framed
    if held:
        yield cut.batch(held)


class _BatchCutter:
    """Makes the batches of one micro-batch, in order."""

    def __init__(self, origin: BatchOrigin, epoch: int, received: int) -> None:
        self._origin = origin
        self._epoch = epoch
        self._received = received
        self._append = 0  # ordinal of the last batch
        self._crc = 0  # of all records so far
        self._rows = 0

    def batch(self, records: list[bytes]) -> NumberedBatch:
        """Return the batch of whole *records*."""
        return self._make(records, len(records), _NO_MARK)

    def pieces(self, record: bytes) -> Iterator[NumberedBatch]:
        """Yield the batches of a *record* that is longer than a batch may be."""
        if len(record) > EVENT_BYTES:
            raise StorageError(
                f"row {self._rows + 1} of micro-batch {self._epoch} is {len(record):,} bytes as "
                f"JSON, over {EVENT_BYTES:,}: leave it out, or cut it"
            )
        # the same id each time: after an interruption, the rest of the pieces follows the first
        event = str(uuid5(self._origin.writer, f"{self._epoch}/{self._append}"))
        for start, end in piece_ranges(len(record)):
            piece = EventPiece(event, start, end, len(record))
            yield self._make([record[start:end]], int(piece.last), piece.encode())

    def _make(self, records: list[bytes], rows: int, mark: msgspec.Raw) -> NumberedBatch:
        origin, body = self._origin, frame_events(records)
        self._append += 1
        self._rows += rows
        self._crc = crc32(body, self._crc)
        header = BatchHeader(
            kind=FOREIGN,
            source=str(origin.writer),
            records=len(records),
            events=rows,
            size=len(body),
            read=self._received,
            received=self._received,
            store=origin.store,
            peer=origin.peer,
            mark=mark,
        )
        return NumberedBatch(
            number_of_append(self._epoch, self._append, self._crc),
            frame_event(header.encode()) + body,
            1 + len(records),
            rows,
        )
