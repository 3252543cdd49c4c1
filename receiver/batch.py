"""What is appended at once: a header record and the records of one run, as the parts of one write (rule R4).

Costs one header encoding a batch. A run of few, large records is handed on in parts, without a copy; many small ones are
joined once, as the pieces would cost more than the copy.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from logdrive.limits import HEADER_BYTES
from logdrive.record import DATA, KINDS, BatchHeader, framed, mark_of, position_of
from logdrive.wire.lumberjack.frames import Run, framed_pieces

FOREIGN: Final = "foreign"
_NO_EVENT_TYPE = b"\0\0\0\0"
_FEW = 16
_NO_MARK = msgspec.Raw(b"null")


def events_of(pieces: Sequence[bytes]) -> list[bytes]:
    """Return *pieces* (u32 length, payload) as Pravega events, in parts to be written one after the other."""
    if len(pieces) > _FEW:
        return [framed_pieces(pieces)]
    parts: list[bytes] = []
    for piece in pieces:
        parts += (_NO_EVENT_TYPE, piece)
    return parts


class SourceBatches:
    """Makes the batches of one source; what its headers have in common is made once."""

    def __init__(self, source: UUID, origin: UUID, attributes: bytes, peer: msgspec.Raw, store: str) -> None:
        self._source, self._origin, self._store = str(source), str(origin), store
        self._attributes, self._peer = msgspec.Raw(attributes), peer

    def batch(self, run: Run, pieces: Sequence[bytes], size: int, received: int) -> list[bytes]:
        """Return the batch of *run*; *size* is its records' length in Pravega framing, *received* ms since 1970.

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
            mark=_NO_MARK if run.kind == DATA else _mark(pieces),
        )
        return [framed(_checked(header.encode())), *events_of(pieces)]


class ForeignBatches:
    """Makes the batches of one foreign peer: no origin, no positions (rule R4)."""

    def __init__(self, source: UUID, peer: msgspec.Raw, store: str) -> None:
        self._source, self._peer, self._store = str(source), peer, store

    def batch(self, framed_records: bytes, records: int, received: int) -> list[bytes]:
        """Return the batch of *records* records, one event each, given as Pravega events back to back."""
        header = BatchHeader(
            kind=FOREIGN,
            source=self._source,
            records=records,
            events=records,
            size=len(framed_records),
            read=received,
            received=received,
            store=self._store,
            peer=self._peer,
        )
        return [framed(header.encode()), framed_records]


def _mark(pieces: Sequence[bytes]) -> msgspec.Raw:
    return msgspec.Raw(mark_of(pieces[0][4:]))


def _checked(header: bytes) -> bytes:
    if len(header) > HEADER_BYTES:
        raise ValueError(f"a batch header of {len(header)} bytes, over {HEADER_BYTES}")
    return header
