"""Headers that a store of ours tells in one answer, from its index of appends.

A receiver appends a batch at once, so batches mostly begin and end where appends do. `KnownAppends`
takes a batch for known only where it does: the bytes that the store tells were not checked against
their CRC, and what ends elsewhere may be damaged, or somebody else's. Such a place is then read
like one of a Pravega, checked.
"""

from bisect import bisect_left
from typing import Final

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.model.batch_walker import BatchRef, BatchWalker
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import HEADER_BYTES
from logdrive.model.units import KIB
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.errors import TokenError
from logdrive.services.pravega.client.located import LocatedAppends
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES

_HEAD_BYTES: Final = 1 * KIB  # bytes of each append at first; a longer header makes it more
_MOST_HEAD_BYTES: Final = EVENT_HEAD + HEADER_BYTES


class KnownAppends:
    """Batches of one segment before *end*, as far as the service tells where appends begin."""

    def __init__(self, client: SegmentClient, segment: str, end: int) -> None:
        self._client = client
        self._segment = segment
        self._end = end
        # bytes of each append to ask for
        self._head_bytes = _HEAD_BYTES
        # None before the first question
        self._tells: bool | None = None
        # of the last answer: where each known head is in the segment, and behind them all
        self._offsets: list[int] = []
        self._heads: list[bytes] = []
        self._known_to = -1

    async def batch_at(self, offset: int) -> BatchRef | None:
        """Return the batch at *offset* if it is one append; None if it must be looked for.

        *offset* never goes back. Raises `TransientError`, `TokenError`.
        """
        while True:
            if offset >= self._known_to and not await self._ask(offset):
                return None
            at = bisect_left(self._offsets, offset)
            if at == len(self._heads) or self._offsets[at] != offset:
                return None  # amid an append
            walker = BatchWalker(self._segment, offset, max_event=PRAVEGA_FRAME_BYTES)
            walker.receive_data(self._heads[at], offset)
            try:
                batch = walker.next_header()
            except StorageError:
                return None
            if batch is not None:
                return batch if batch.next == self._end_of(at) else None
            if not self._longer_heads(len(self._heads[at]), walker.header_bytes):
                return None
            self._known_to = -1  # ask again, from here on

    def _end_of(self, at: int) -> int:
        return self._offsets[at + 1] if at + 1 < len(self._offsets) else self._known_to

    def _longer_heads(self, had: int, needed: int) -> bool:
        """Have longer heads asked for if a header of *needed* bytes then fits; return whether."""
        # an append is not longer than its head, or no header is as long
        if had < self._head_bytes or needed > _MOST_HEAD_BYTES:
            return False
        while self._head_bytes < needed:
            self._head_bytes *= 2
        self._head_bytes = min(self._head_bytes, _MOST_HEAD_BYTES)
        return True

    async def _ask(self, offset: int) -> bool:
        """Ask for the appends from *offset* on; return whether there is an answer."""
        if self._tells is False or offset >= self._end:
            return False
        try:
            if self._tells is None:
                self._tells = await self._client.locates_appends(self._segment)
                if not self._tells:
                    return False
            located = await self._client.locate_appends(
                self._segment, offset, self._end, self._head_bytes
            )
        except (TransientError, TokenError):
            raise
        except LogdriveError:  # why, a read says
            self._tells = False
            return False
        self._keep(located, offset)
        return True

    def _keep(self, located: LocatedAppends, offset: int) -> None:
        self._offsets = [max(extent.offset, offset) for extent in located.extents]
        self._heads = list(located.heads)
        last = located.extents[-1]
        self._known_to = last.offset + last.length
