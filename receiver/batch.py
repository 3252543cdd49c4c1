"""Batches: a header record and the records of one run, appended at once (rule R4).

Costs the encoding of one header for each batch.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import msgspec

from logdrive.model.batch import BatchHeader
from logdrive.model.dead_letters import DEAD_LETTER, Letter, encode_note
from logdrive.model.framing import EVENT_HEAD, Part, event_head, frame_event
from logdrive.model.limits import HEADER_BYTES
from logdrive.model.numbers import position_of
from logdrive.model.pieces import EventPiece, piece_ranges
from logdrive.model.records import DATA, KINDS, mark_in_record
from logdrive.packs.pack import PackHead
from logdrive.wire.lumberjack.frames import RunFrame

FOREIGN: Final = "foreign"
_NO_MARK = msgspec.Raw(b"null")


class SourceBatches:
    """Makes the batches of one `logdrive/1` source."""

    def __init__(
        self, source: UUID, origin: UUID, attributes: bytes, peer: msgspec.Raw, store: str
    ) -> None:
        # what all headers have in common
        self._source = str(source)
        self._origin = str(origin)
        self._store = store
        self._attributes = msgspec.Raw(attributes)
        self._peer = peer

    def run_batch(
        self,
        run: RunFrame,
        events: Sequence[Part],
        size: int,
        received: int,
        pack: PackHead | None = None,
    ) -> list[Part]:
        """Return the batch of *run*, whose records are *events*, *size* bytes of Pravega events;
        they are one pack with the head *pack*, unless that is None.

        *received* is in ms since 1970. Raises ValueError if a gap or end run lacks its record, or
        the record makes the header too long.
        """
        header = BatchHeader(
            kind=KINDS[run.kind],
            form=msgspec.UNSET if pack is None else pack.form.in_header,
            source=self._source,
            origin=self._origin,
            previous=position_of(run.previous),
            position=position_of(run.number),
            records=run.records,
            events=run.events,
            size=size,
            skipped=run.skipped,
            read=run.read,
            received=received,
            store=self._store,
            peer=self._peer,
            attributes=self._attributes,
            mark=_NO_MARK if run.kind == DATA else _mark(events),
        )
        return [frame_event(_checked(header.encode())), *events]


class ForeignBatches:
    """Makes the batches of one foreign peer: without origin and positions (rule R4)."""

    def __init__(self, source: UUID, peer: msgspec.Raw, store: str) -> None:
        # what all headers have in common
        self._source = str(source)
        self._peer = peer
        self._store = store

    def event_batch(
        self, events: Sequence[Part], size: int, records: int, received: int
    ) -> list[Part]:
        """Return the batch of *events*: *records* records, one event each, in *size* bytes."""
        return [self._header(size, records, records, received, _NO_MARK), *events]

    def piece_batches(self, payload: bytes, event: UUID, received: int) -> Iterator[list[Part]]:
        """Yield the batches of *payload*, an event over the limit of a record (rule R6), without
        copying it. The last one counts as the event.
        """
        view, name = memoryview(payload), str(event)
        for start, end in piece_ranges(len(payload)):
            piece = EventPiece(name, start, end, len(payload))
            header = self._header(
                EVENT_HEAD + end - start, 1, int(piece.last), received, piece.encode()
            )
            yield [header, event_head(end - start), view[start:end]]

    def dead_letter_batch(self, payload: bytes, letter: UUID, received: int) -> list[Part]:
        """Return the batch that notes that *payload* is among the dead letters (rule R7)."""
        mark = Letter(DEAD_LETTER, len(payload), str(letter))
        return [encode_note(mark, UUID(self._source), self._store, received, peer=self._peer)]

    def _header(
        self, size: int, records: int, events: int, received: int, mark: msgspec.Raw
    ) -> bytes:
        header = BatchHeader(
            kind=FOREIGN,
            source=self._source,
            records=records,
            events=events,
            size=size,
            read=received,
            received=received,
            store=self._store,
            peer=self._peer,
            mark=mark,
        )
        return frame_event(header.encode())


def _mark(events: Sequence[Part]) -> msgspec.Raw:
    # a gap or end run has one record, whose mark its header repeats
    return msgspec.Raw(mark_in_record(b"".join(events)[EVENT_HEAD:]))


def _checked(header: bytes) -> bytes:
    if len(header) > HEADER_BYTES:
        raise ValueError(f"a batch header of {len(header)} bytes, over {HEADER_BYTES}")
    return header
