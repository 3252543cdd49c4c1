"""What is appended at once: a header record and the records of one run, as the parts of one write (rule R4).

Costs one header encoding a batch.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from logdrive.limits import HEADER_BYTES
from logdrive.record import DATA, EVENT_HEAD, KINDS, BatchHeader, Part, framed, mark_of, position_of
from logdrive.wire.lumberjack.frames import Run

FOREIGN: Final = "foreign"
_NO_MARK = msgspec.Raw(b"null")


class SourceBatches:
    """Makes the batches of one source; what its headers have in common is made once."""

    def __init__(self, source: UUID, origin: UUID, attributes: bytes, peer: msgspec.Raw, store: str) -> None:
        self._source, self._origin, self._store = str(source), str(origin), store
        self._attributes, self._peer = msgspec.Raw(attributes), peer

    def batch(self, run: Run, events: Sequence[Part], size: int, received: int) -> list[Part]:
        """Return the batch of *run*; its records are *size* bytes of Pravega events. *received* is ms since 1970.

        Raises ValueError where a gap or end run holds no such record, or one that makes the header too long.
        """
        header = BatchHeader(
            kind=KINDS[run.kind],
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
        return [framed(_checked(header.encode())), *events]


class ForeignBatches:
    """Makes the batches of one foreign peer: no origin, no positions (rule R4)."""

    def __init__(self, source: UUID, peer: msgspec.Raw, store: str) -> None:
        self._source, self._peer, self._store = str(source), peer, store

    def batch(self, events: Sequence[Part], size: int, records: int, received: int) -> list[Part]:
        """Return the batch of *records* records, one event each, given as *size* bytes of Pravega events."""
        header = BatchHeader(
            kind=FOREIGN,
            source=self._source,
            records=records,
            events=records,
            size=size,
            read=received,
            received=received,
            store=self._store,
            peer=self._peer,
        )
        return [framed(header.encode()), *events]


def _mark(events: Sequence[Part]) -> msgspec.Raw:
    return msgspec.Raw(mark_of(b"".join(events)[EVENT_HEAD:]))


def _checked(header: bytes) -> bytes:
    if len(header) > HEADER_BYTES:
        raise ValueError(f"a batch header of {len(header)} bytes, over {HEADER_BYTES}")
    return header
