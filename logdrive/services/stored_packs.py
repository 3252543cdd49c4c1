"""Opens all packs in the segments of a store, for `store verify --deep` (rule R8).

A segment is walked from batch to batch, as readers do. What is no batch is passed over: records and
segments of other programs, and tables. Batches that came over S2 or Iggy have their header in an
envelope of that face (docs/adr/0024, 0026), which is taken off; those that S2 keeps encrypted are
passed over.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from logdrive.errors import StorageError
from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef, BatchWalker, trusted_header
from logdrive.model.framing import EVENT_HEAD, Part
from logdrive.model.units import MIB
from logdrive.packs.contents import open_batch
from logdrive.packs.faults import PackFault
from logdrive.packs.pack import PackError
from logdrive.services.numbering.heads import (
    HEAD_BYTES,
    MAGIC,
    RECORD,
    decode_head,
    split_fields,
)
from logdrive.wire.iggy.messages.envelope import decode_message
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES

_CHUNK: Final = 1 * MIB
"""Bytes that are walked at once: appends may be small."""
_MOST_FAULTS: Final = 1000
_MOST_OF_SOURCE: Final = 100
"""Faults that are kept, of all sources and of one; the others are counted. A client may send lies
of a line each, which must not hide those of others.
"""


class StoredPacks:
    """Looks at one segment after the other, and keeps what it finds."""

    def __init__(self) -> None:
        self.opened = 0
        """Number of packs looked at."""
        self.faulty = 0
        """Number of those that can't be opened."""
        self.faults: list[PackFault] = []
        """The first of those, of each source."""
        self._kept = Counter[str]()  # how many of those there are, by source

    def inspect_segment(self, segment: str, data: Iterable[tuple[int, Part]]) -> None:
        """Open the packs in *data*: appends of *segment* with their offsets, in order.

        Appends may be missing. Takes memory for a few MiB and the content of one pack.
        """
        walk, following = _SegmentWalk(segment, self), -1
        for offset, chunk in _join_appends(data):
            if offset != following:
                walk.begin_at(offset)
            walk.receive_data(offset, chunk)
            following = offset + len(chunk)

    def look_at_pack(self, segment: str, batch: BatchRef, pack: bytes) -> None:
        """Open *pack*, the record of *batch*, which has a header."""
        assert batch.header is not None, "only a header says that a record is a pack"
        self.opened += 1
        try:
            open_batch(batch.header, pack)
        except PackError as error:
            self.faulty += 1
            source = batch.header.source
            if len(self.faults) < _MOST_FAULTS and self._kept[source] < _MOST_OF_SOURCE:
                self.faults.append(PackFault.of(segment, batch, error))
                self._kept[source] += 1


class _SegmentWalk:
    """The walk over one segment."""

    def __init__(self, segment: str, packs: StoredPacks) -> None:
        self._segment = segment
        self._packs = packs
        self._walker: BatchWalker | None = None  # None where no batch is expected
        self._enveloped: BatchRef | None = None  # its header was in an envelope, its pack follows

    def begin_at(self, offset: int) -> None:
        """Begin at *offset*, where an append begins."""
        self._walker = BatchWalker(self._segment, offset, max_event=PRAVEGA_FRAME_BYTES)
        self._enveloped = None

    def receive_data(self, offset: int, data: bytes) -> None:
        """Look at *data*, the segment's bytes from *offset* on."""
        if self._walker is None:
            self.begin_at(offset)
        walker = self._walker
        assert walker is not None
        walker.receive_data(data, offset)
        try:
            while (batch := walker.next_batch()) is not None:
                self._look_at(batch, walker.records_of(batch))
        except StorageError:  # no events: try again where the next appends begin
            self._walker = None

    def _look_at(self, batch: BatchRef, records: bytes) -> None:
        if batch.header is not None:
            self._enveloped = None
            if _is_packed(batch.header):
                self._packs.look_at_pack(self._segment, batch, records[EVENT_HEAD:])
            return
        body = _body_in_envelope(batch.payload)
        before, self._enveloped = self._enveloped, _enveloped_batch(batch, body)
        if before is not None and self._enveloped is None:
            pack = batch.payload if body is None else body
            self._packs.look_at_pack(self._segment, before, pack)


def _is_packed(header: BatchHeader) -> bool:
    return header.kind == "data" and header.form is not msgspec.UNSET


def _body_in_envelope(payload: bytes) -> bytes | None:
    """Return the body in an envelope of S2 or Iggy; None if there is none that can be taken off."""
    if payload.startswith(MAGIC):
        head = decode_head(payload, 0, len(payload))
        record = head is not None and head.kind == RECORD
        fields = split_fields(payload[HEAD_BYTES:]) if record else None
        return None if fields is None else fields[1]
    body = decode_message(payload).payload
    return body if len(body) < len(payload) else None


def _enveloped_batch(batch: BatchRef, body: bytes | None) -> BatchRef | None:
    """Return *batch*, a headless record, with the header in its *body*, if that is of a pack."""
    header = None if body is None else trusted_header(body)
    if header is None or body is None or not _is_packed(header):
        return None
    return BatchRef(batch.offset, batch.body, batch.next, batch.crc, header, body)


def _join_appends(data: Iterable[tuple[int, Part]]) -> Iterator[tuple[int, bytes]]:
    """Yield *data* in chunks of `_CHUNK` and more; one ends where appends are missing."""
    start, size, parts = 0, 0, list[Part]()
    for offset, part in data:
        if parts and (offset != start + size or size >= _CHUNK):
            yield start, b"".join(parts)
            parts = []
        if not parts:
            start, size = offset, 0
        parts.append(part)
        size += len(part)
    if parts:
        yield start, b"".join(parts)
