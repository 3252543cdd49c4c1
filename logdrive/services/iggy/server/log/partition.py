"""One open partition: a numbered segment of the store as Iggy's clients see it (docs/adr/0026)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple
from uuid import uuid5

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.model.identity import NAMESPACE
from logdrive.model.units import GIB
from logdrive.services.iggy.server.log.appending import APPEND_BYTES, DurableSend, PartitionAppender
from logdrive.services.iggy.server.log.failures import as_iggy_error
from logdrive.services.iggy.server.log.known_ids import Deduplication
from logdrive.services.iggy.server.log.polling import POLL_BYTES, PartitionPoller, PolledMessages
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.store.engine import Store
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import PollingStrategy
from logdrive.wire.iggy.limits import U32_MAX
from logdrive.wire.iggy.messages.batches import SentBatch
from logdrive.wire.iggy.revision import Revision

SEGMENT_BYTES: Final = GIB
"""Bytes of what Iggy calls a segment, where its topic says nothing else; files are others here."""


class PartitionFigures(NamedTuple):
    """What a partition has.

    *current_offset* is that of the newest message there ever was, and 0 where there was none.
    *first_offset* is that of the oldest that is left, or of the next one.
    """

    first_offset: int
    current_offset: int
    messages: int
    size: int
    # when it was changed last, ms since 1970
    changed_ms: int

    def segments(self, segment_bytes: int = SEGMENT_BYTES) -> int:
        """Return how many of Iggy's segments that would be, from one to what a reply can tell."""
        return min(max(1, -(-self.size // segment_bytes)), U32_MAX)

    def has_had(self, offset: int) -> bool:
        """Return whether there is, or was, a message at *offset*."""
        return 0 <= offset < self.first_offset + self.messages


class PartitionLog:
    """One open partition.

    All methods may be called from any task of the store's event loop. What they raise is
    `IggyError` alone.
    """

    def __init__(
        self,
        store: Store,
        numbered: NumberedSegment,
        *,
        clock: Clock,
        deduplication: Deduplication | None = None,
        append_bytes: int = APPEND_BYTES,
    ) -> None:
        """Take *numbered*, and keep it open until `close`."""
        self.segment = numbered.segment
        self._store = store
        self._numbered = numbered
        self._appender = PartitionAppender(
            store, numbered, clock=clock, deduplication=deduplication, append_bytes=append_bytes
        )
        self._poller = PartitionPoller(store, numbered, id_seed=_id_seed(store, self.segment))
        self._hold = contextlib.ExitStack()
        self._hold.enter_context(numbered.in_use())
        numbered.on_settled.append(self._appender.answer)
        self._hold.callback(numbered.on_settled.remove, self._appender.answer)
        # polls and deletions under way
        self._users = 0
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._appender.is_idle and not self._users

    @property
    def is_current(self) -> bool:
        """Whether it is open, and its segment still is the one that it was opened for."""
        return not self._closed and self._numbered.is_current

    # Messages ------------------------------------------------------------------------------------

    def submit(self, batch: SentBatch) -> "asyncio.Future[DurableSend]":
        """Append *batch* after everything submitted before.

        The future is done once it is durable, in the order of `submit`; it fails with `IggyError`.
        Cancelling the future undoes nothing. While the store has no room, sends wait here: let few
        be under way. Raises PAYLOAD_TOO_BIG for a message that is longer than the store takes.
        """
        return self._appender.submit(batch)

    async def append(self, batch: SentBatch) -> DurableSend:
        """Append *batch*; return once it is durable, as `submit` says."""
        return await self.submit(batch)

    async def poll(
        self,
        revision: Revision,
        strategy: PollingStrategy,
        count: int,
        *,
        partition: int,
        stored: int | None,
        limit: int = POLL_BYTES,
        wait_for_memory: Callable[[], Awaitable[bool]] | None = None,
    ) -> PolledMessages:
        """Return up to *count* messages, in the bytes of *revision*.

        *stored* is the offset that the consumer has stored, if any: NEXT goes on behind it.
        *partition* is the 0-based number for the reply. *limit* is in bytes; a single message may
        be longer. *wait_for_memory* is called before it is taken: see `IggySession`. Up to R1,
        raises INVALID_MESSAGES_COUNT for a count of 0.
        """
        with self._in_use():
            await self._numbered.sync()
            # last of all, since other polls that are admitted meanwhile take memory, too
            while wait_for_memory is not None and await wait_for_memory():
                self._check_open()
                await self._numbered.sync()
            return self._poller.poll(
                revision, strategy, count, partition=partition, stored=stored, limit=limit
            )

    # State ---------------------------------------------------------------------------------------

    async def figures(self) -> PartitionFigures:
        """Return what the partition has, with all that is durable now."""
        with self._in_use():
            await self._numbered.sync()
            first, end = self._numbered.first_position(), self._numbered.view.end
            return PartitionFigures(
                first.seq_num,
                max(0, end.seq_num - 1),
                end.seq_num - first.seq_num,
                end.offset - first.offset,
                self._numbered.last_write_ms,
            )

    # Deletion ------------------------------------------------------------------------------------

    async def purge(self) -> None:
        """Delete all messages that are durable now; offsets go on behind them."""
        with self._in_use():
            await self._numbered.sync()
            try:
                await self._numbered.delete_before(self._numbered.view.end.seq_num)
            finally:
                self._appender.forget_ids()

    async def delete_segments(self, count: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Delete the oldest *count* pieces of *segment_bytes*, whole messages; one always stays."""
        figures = await self.figures()
        whole = min(count, figures.segments(segment_bytes) - 1)
        if whole <= 0:
            return
        with self._in_use():
            first = self._numbered.first_position()
            cut = self._numbered.view.position_before(first.offset + whole * segment_bytes)
            await self._numbered.delete_before(cut.seq_num)

    async def expire(self, before_ms: int) -> int:
        """Delete messages that were appended before *before_ms* (since 1970), whole appends.

        Return how many bytes that were.
        """
        with self._in_use():
            await self._numbered.sync()
            begin = self._numbered.first_position().offset
            await self._numbered.cut_appended_before(before_ms)
            return self._numbered.first_position().offset - begin

    async def close(self) -> None:
        """Answer what was submitted, and let go of the segment."""
        self._closed = True
        await self._appender.close()
        self._hold.close()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        self._check_open()
        self._users += 1
        try:
            yield
        except LogdriveError as error:
            raise as_iggy_error(error) from error
        finally:
            self._users -= 1

    def _check_open(self) -> None:
        if self._closed:
            raise IggyError(Reason.PARTITION_NOT_FOUND, "the partition was closed")


def _id_seed(store: Store, segment: str) -> bytes:
    """Return 8 bytes that are the same after every start, and others for every segment."""
    name = f"iggy {store.store_id} {store.incarnation(segment)}"
    seed = uuid5(NAMESPACE, name).bytes[:8]
    return seed if any(seed) else b"\x01" * 8
