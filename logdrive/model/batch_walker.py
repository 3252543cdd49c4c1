"""Walks the bytes of a segment from batch to batch, sans I/O (rules R4, R5).

A segment is a sequence of batches: a header record and, right behind it, as many bytes of records
as the header says. So a header is recognized by its place alone: the start of the segment, or the
place where the batch before it ends. A record at such a place that is no header is *headless*: it
counts as a batch without records, and a header may follow it.

`BatchWalker` is fed with bytes and returns `BatchRef`s. `SegmentReader` feeds it from the network,
the pipeline's decoder with bytes at hand, and the store with the beginning of a batch whose end it
looks for.
"""

from dataclasses import dataclass
from zlib import crc32

from msgspec import UNSET

from logdrive.errors import StorageError
from logdrive.model.batch import BatchHeader, parse_header
from logdrive.model.framing import EVENT_HEAD, Part, event_length
from logdrive.model.limits import HEADER_BYTES, MAX_POSITION, PACK_BYTES, RUN_BYTES
from logdrive.model.pieces import piece_in_header
from logdrive.model.records import KINDS


@dataclass(frozen=True, slots=True)
class BatchRef:
    """One batch of a segment, without its records. All places are offsets in the segment.

    Where offsets count records (`record_walker`), the header record counts one.
    """

    offset: int
    """Where the header record begins."""
    body: int
    """Where the records begin."""
    next: int
    """Where the records end, and the next batch begins."""
    crc: int
    """CRC-32 of the header record's payload: a reader knows the batch again by it (rule R5)."""
    header: BatchHeader | None
    """None for a headless record."""
    payload: bytes
    """Payload of the header record, or of the headless record."""
    command: bool = False
    """True for a command record of S2, which is no batch and holds no line; *header* is None."""
    torn: bool = False
    """True for what is left of a batch of which the service lost a part; *header* is None.

    *payload* is its records, the header's first, one a line, and *crc* is of the header's payload.
    Without a payload the service lost all that was there.
    """

    @property
    def size(self) -> int:
        """Stored bytes of the batch: header and records, as Pravega events."""
        records = 0 if self.header is None else self.header.size
        return EVENT_HEAD + len(self.payload) + records

    @property
    def raw_size(self) -> int:
        """Bytes that the batch is about to become once its pack is opened, at least *size*.

        Of a pack, the bytes of the file that it has; else its stored bytes. Of packs of records it
        is the text alone, without the fields of each event.
        """
        header = self.header
        if header is None or header.form is UNSET:
            return self.size
        # set in each header of a pack (`trusted_header`)
        text = (header.position or 0) - (header.previous or 0) - header.skipped
        return max(self.size, min(text, PACK_BYTES))  # whatever a pack's sender claims


def trusted_header(payload: bytes) -> BatchHeader | None:
    """Return the header in *payload*, or None if it is headless.

    Headless is what can't be parsed, and what has figures that no receiver writes.
    """
    if len(payload) > HEADER_BYTES:
        return None
    try:
        header = parse_header(payload)
        if header.kind == "foreign":
            piece_in_header(header)  # raises for a mark that no receiver writes
    except ValueError:
        return None

    if (
        min(header.size, header.records, header.events, header.skipped) < 0
        or header.size > RUN_BYTES
    ):
        return None
    packed = header.form is not UNSET
    # a pack is the one record of a data batch
    if packed and (header.kind, header.records) != ("data", 1):
        return None
    # foreign peers have no positions
    if header.kind == "foreign":
        return header
    placed = (
        header.previous is not None
        and header.position is not None
        and 0 <= header.previous <= header.position < MAX_POSITION
    )
    return header if placed and header.kind in KINDS else None


class BatchWalker:
    """Cuts bytes of a segment into batches, in order.

    Feed it with `receive_data`, then call `next_batch`, or `next_header` to skip the records, until
    it returns None. Discard the walker after a `StorageError`.

    Costs per batch: one parsed header and one copy of its payload. Records are not copied.
    """

    __slots__ = ("_at", "_batch", "_data", "_max_event", "_segment", "header_bytes", "position")

    def __init__(self, segment: str, position: int, *, max_event: int) -> None:
        """Begin at *position*, where a batch begins in *segment*; the name is for errors.

        An event with more than *max_event* bytes of payload raises `StorageError`.
        """
        self._segment = segment
        self._max_event = max_event  # bytes of payload
        self._data = b""  # bytes received
        self._at = 0  # index of *position* in the data; behind its end after skipped records
        self._batch: BatchRef | None = None  # at *position*, while its records are incomplete

        self.position = position
        """Offset in the segment at which the next batch begins."""
        self.header_bytes = EVENT_HEAD
        """Length of the next header record, as far as known: at least its head's."""

    def receive_data(self, data: Part, offset: int) -> None:
        """Add *data*, the segment's bytes from *offset* on.

        *offset* lies between *position* and the end of the data received, or is *position*. The new
        data replaces any received before for the same place.
        """
        kept = self._data[self._at : self._at + offset - self.position]
        self._data = kept + data if kept else bytes(data)  # bytes are not copied
        self._at = 0

    def next_batch(self) -> BatchRef | None:
        """Return the next batch and step behind it; None until it is there with its records.

        Raises `StorageError` if no event begins there, or one that is too long.
        """
        batch = self._batch or self._parse()
        if batch is None:
            return None
        following = self._at + batch.next - batch.offset
        if following > len(self._data):
            self._batch = batch  # parse its header only once
            return None
        self._step_behind(batch, following)
        return batch

    def next_header(self) -> BatchRef | None:
        """Return the next batch and step behind it; None until its header is there.

        Its records need not be received: feed the walker from the new *position* on. Raises
        `StorageError` if no event begins there, or one that is too long.
        """
        batch = self._batch or self._parse()
        if batch is not None:
            self._step_behind(batch, self._at + batch.next - batch.offset)
        return batch

    def records_of(self, batch: BatchRef) -> bytes:
        """Return a copy of the records of *batch*, the last that `next_batch` has returned."""
        return self._data[self._at - (batch.next - batch.body) : self._at]

    def _step_behind(self, batch: BatchRef, following: int) -> None:
        self._batch = None
        self._at = following
        self.position = batch.next
        self.header_bytes = EVENT_HEAD

    def _parse(self) -> BatchRef | None:
        """Return the batch at *position*; None, and set *header_bytes*, if data is missing."""
        data, position = self._data, self.position
        body = self._at + EVENT_HEAD
        if body > len(data):
            self.header_bytes = EVENT_HEAD
            return None
        length = self._event_length(data[self._at : body])
        end = body + length
        if end > len(data):
            self.header_bytes = EVENT_HEAD + length
            return None

        # a headless record has no records after it
        payload = data[body:end]
        header = trusted_header(payload)
        records = position + EVENT_HEAD + length
        following = records if header is None else records + header.size
        return BatchRef(position, records, following, crc32(payload), header, payload)

    def _event_length(self, head: bytes) -> int:
        try:
            length = event_length(head)
        except ValueError as error:
            raise StorageError(
                f"{self._segment} at {self.position}: {error}; it was not written by logdrive"
            ) from error
        if length > self._max_event:
            raise StorageError(
                f"{self._segment} at {self.position}: an event of {length} bytes; it was not "
                "written by logdrive"
            )
        return length
