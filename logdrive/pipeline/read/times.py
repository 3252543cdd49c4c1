"""Finds where in a segment the batches begin that were received at a time or later.

Batches stand in a segment in the order in which the service took them, so their `received` rises,
as far as the clocks of the receivers agree. A store of ours tells where batches begin near any
offset: then a bisection reads a header or two for each halving. Of any other service the headers
are walked from the start.
"""

from datetime import UTC, datetime
from typing import Final

from logdrive.model.batch_walker import BatchRef
from logdrive.model.units import MIB
from logdrive.pipeline.read.stream import StreamClient
from logdrive.services.reader import ServiceReader

WALKED_BYTES: Final = 8 * MIB
"""Stored bytes whose headers are walked at once, and rather than halved again."""
# digits from which on a time is ms since 1970: 20261123 is a day
_MS_DIGITS: Final = 12


def parse_time_ms(text: str) -> int:
    """Return the time *text*, ISO 8601 or ms since 1970, in ms since 1970.

    A time without a zone is UTC. Raises ValueError.
    """
    if text.isascii() and text.isdecimal() and len(text) >= _MS_DIGITS:
        return int(text)
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def find_time(stream: ServiceReader, segment: str, start: int, end: int, time_ms: int) -> int:
    """Return where the first batch of [*start*, *end*) begins that was received at *time_ms* or
    later; *end* if there is none.

    *start* is where a batch begins; *time_ms* is in ms since 1970. A batch whose receiver's clock
    was behind may stand after that place, one whose clock was ahead before it. Raises
    `TransientError`, `StorageError`.
    """
    at, high = _halve(stream, segment, start, end, time_ms)
    for limit in (high, end):  # mostly it is before *high*; the batch there may reach beyond
        while at < limit:
            batches = stream.read_batch_refs(segment, at, limit, WALKED_BYTES)
            for batch in batches:
                if _is_since(batch, time_ms):
                    return batch.offset
            if not batches:  # only a part of a batch is before the limit
                break
            at = batches[-1].next
    return at


def _halve(
    stream: ServiceReader, segment: str, start: int, end: int, time_ms: int
) -> tuple[int, int]:
    """Return a place where a batch begins, not behind the one looked for, and one near which it is
    found, or behind it.
    """
    low, high = start, end  # all before *low* is older; what is behind *high* is not, or is unknown
    while isinstance(stream, StreamClient) and high - low > WALKED_BYTES:
        middle = (low + high) // 2
        batch = stream.find_batch(segment, middle, high)
        if batch is None:
            break
        if _is_since(batch, time_ms):
            high = middle
        else:
            low = batch.next
    return low, high


def _is_since(batch: BatchRef, time_ms: int) -> bool:
    """Return whether *batch* was received at *time_ms* or later; a batch without header was not."""
    return batch.header is not None and batch.header.received >= time_ms
