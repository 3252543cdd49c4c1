"""Reads a range of a segment as its task decodes it: in order, with the pieces of large events."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from logdrive.pipeline.read.planner import BatchRange


@dataclass(frozen=True, slots=True)
class SegmentChunk:
    """Stored bytes of a segment, cut anywhere; whole batches if offsets count records."""

    offset: int  # of the first byte or record, in the segment
    data: bytes
    recalled: bool = False
    """True: whole batches from before, with pieces of the event that ends next (rule R6)."""


def read_chunks(
    wanted: BatchRange, pieces: Callable[[int, int], Iterator[tuple[int, bytes]]]
) -> Iterator[SegmentChunk]:
    """Yield the bytes of a range in order; *pieces* reads any part of its segment, as
    `ServiceReader.read_chunks` does.

    Before the last piece of an event in pieces, the chunks with its other pieces are yielded as
    `recalled`, wherever in the segment they are (rule R6). So a task holds one such event at a
    time.
    """
    at = wanted.start
    for event in wanted.events:
        # up to the batch with the event's last piece
        for offset, piece in pieces(at, event.last):
            yield SegmentChunk(offset, piece)
        at = event.last
        # the batches with its other pieces
        for start, end in event.extents:
            data = b"".join(piece for _, piece in pieces(start, end))
            yield SegmentChunk(start, data, recalled=True)

    # the rest, which begins with that last piece
    for offset, piece in pieces(at, wanted.end):
        yield SegmentChunk(offset, piece)
