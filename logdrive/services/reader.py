"""The protocol of a stream reader: what the pipeline asks of a streaming service.

There is one class for each service that the pipeline reads from; a store's directory (`file://`) is
read through its Pravega face. To add a reader for another service, satisfy `ServiceReader` and
choose it by its scheme in `logdrive/pipeline/read/choose_reader.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from logdrive.model.batch_walker import BatchRef
from logdrive.model.units import OffsetUnit


@dataclass(frozen=True, slots=True)
class SegmentState:
    """The state of one segment when the service was asked."""

    segment: str
    """The segment's full name."""
    start: int
    """Offset of its first byte or record; what was before it was removed by retention."""
    length: int
    """Offset behind its last durable byte or record."""
    sealed: bool
    """True if nothing can be appended any more."""
    modified_ms: int
    """Time of the last change, in ms since 1970."""


class HeaderDigest(Protocol):
    """What a reader keeps of a batch header to recognize it later."""

    @property
    def offset(self) -> int:
        """The header's offset in its segment."""
        ...

    @property
    def crc(self) -> int:
        """The CRC-32 of the header's payload."""
        ...


class ServiceReader(Protocol):
    """One stream of a streaming service, to be read.

    The pipeline's planner and its tasks use it, in several threads, or in several processes of
    Spark's. So an instance must pickle, and holds no connection between two calls. All calls block.
    A call that fails because the service is away or the connection ends is repeated inside the
    method; `TransientError` means that the service stayed away.

    A segment is an append-only sequence of batches: Pravega's segment, Iggy's partition, or all of
    an S2 stream. It has a full name for requests, and a number for tables and checkpoints. Offsets
    count bytes or records from the segment's beginning and never change, whatever retention
    removes.
    """

    @property
    def offset_unit(self) -> OffsetUnit:
        """What the offsets in all segments of the stream count."""
        ...

    @property
    def name(self) -> str:
        """The stream as `scope/stream`, as tables and logs name it."""
        ...

    @property
    def uri(self) -> str:
        """The address that Spark's data source opens the stream with."""
        ...

    def connection_options(self) -> dict[str, str]:
        """Return further options of the data source, such as certificates and tokens.

        Spark hands them to its planner and workers, which open the stream with *uri* and these.
        """
        ...

    def name_of_segment(self, number: int) -> str:
        """Return the full name of the segment *number*. Raises `TransientError`."""
        ...

    def segment_number(self, segment: str) -> int:
        """Return the number of the segment with the full name *segment*, without asking."""
        ...

    def list_segments(self) -> list[SegmentState]:
        """Return the states of the segments that the stream still has, ordered by number.

        The list is empty if there is no such stream. Segments that scaling sealed are in it as long
        as they have bytes. Raises `TransientError`, and `ConfigError` for an address, a certificate
        or a login that can't be used.
        """
        ...

    def read_batch_refs(
        self,
        segment: str,
        start: int,
        end: int,
        most: int | None = None,
        most_raw: int | None = None,
    ) -> list[BatchRef]:
        """Return references to the batches that lie in [*start*, *end*), in order.

        *start* is the offset of a batch. A reference has the batch's header and offsets; the
        records stay at the service. *most* limits the stored bytes of all batches together,
        *most_raw* their raw bytes (`BatchRef.raw_size`), but the first one is returned in any case
        (`BatchBudget`). A batch that is not complete before *end* is left out.

        Raises `TransientError`, and `StorageError` if there are no batches at *start*.
        """
        ...

    def count_known_headers(self, segment: str, marks: Sequence[HeaderDigest]) -> int:
        """Return how many of *marks*, from the first on, still match the segment (rule R5).

        *marks* are headers that were read earlier, ordered by offset. A store that was restored
        from a backup has the same headers up to some offset and others, or none, behind it. Raises
        `TransientError`.
        """
        ...

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield what [*start*, *end*) holds in order, in chunks of a few MiB with their offsets.

        If offsets count bytes, chunks are the stored bytes, cut anywhere. If they count records,
        chunks are whole batches, as `record_walker.walk_records` takes them, and *start* and *end*
        are where batches begin. All of it must be there. Goes on at the same offset after a
        connection was lost. Raises `TransientError`, and `StorageError` if something is missing.
        """
        ...
