"""The protocol of a sink: how a receiver appends batches to a stream (rules S1 to S6).

There is one class for each streaming service: `EmbeddedSink`, `PravegaSink`, `S2Sink` and
`IggySink`. To add one, satisfy `Sink` and choose it by the kind of address in
`receiver/open_sink.py`. Those onto services that keep no numbers share `UnnumberedSink`.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from logdrive.errors import LogdriveError
from logdrive.model.framing import Part


class NumberConflictError(LogdriveError):
    """The append's *previous* is not the number that was submitted last for this writer.

    Nothing was stored. Open the writer again to learn its number.
    """


class NotOpenError(NumberConflictError):
    """The writer is not open on this connection to the service: open it before it appends."""


class SegmentMovedError(LogdriveError):
    """The segment was sealed when its stream was scaled; `Sink.segment_for` names its successor."""


class Sink(Protocol):
    """One stream of a streaming service, to be appended to.

    All calls are made on one event loop. Segments are given by their full names. A writer is a
    source: its id is the source id, and its number the source's number (rule P1).
    """

    store_id: UUID
    """Identifies the store. Agents compare it: numbers of another store mean nothing to them."""
    keeps_numbers: bool
    """False for a service that does not keep a number for each writer (rule S5)."""

    def segment_for(self, routing_key: str) -> str:
        """Return the full name of the segment that *routing_key* belongs to now."""
        ...

    async def open_writer(self, segment: str, writer: UUID) -> int:
        """Return the writer's durable number, asked from the service and not from a cache.

        Called when a source registers, and again after `NotOpenError` or a failed append. Waits
        until everything submitted before for this writer is durable or has failed (rules D2, S2).

        Returns `numbers.ABSENT` for a writer that the service has never seen, `numbers.LOST` if its
        number was removed together with an older segment (rule S3), `numbers.NOT_KEPT` where no
        numbers are kept (rule S5).

        Raises `SegmentMovedError` if the stream was scaled, `TransientError` if the service does
        not answer.
        """
        ...

    def append_batch(
        self,
        segment: str,
        writer: UUID,
        batch: Sequence[Part],
        events: int,
        previous: int,
        number: int,
    ) -> "asyncio.Future[None]":
        """Submit one batch, to be stored whole or not at all.

        *batch* is the batch's bytes in parts, which the caller must not change any more; *events*
        is how many events they hold (Pravega's numEvents); *number* is the writer's number once the
        batch is stored. The batch is stored only if *previous* is the number that was submitted
        last for this writer: `numbers.ABSENT` or `numbers.LOST` if there is none. Where no numbers
        are kept, a writer without a pending batch may begin anywhere.

        The future is done once the batch is durable. It fails with `TransientError` if the sink
        could not take the batch (the disk is full, the connection ended), and with `StorageError`
        if the store has failed for good. Batches become durable in the order in which this process
        submitted them.

        Raises `NumberConflictError` at once if *previous* is another number. May raise
        `TransientError` at once in place of a future that fails with it: nothing was submitted.
        """
        ...

    async def close(self) -> None:
        """Wait for what was submitted, then release resources. Called once, as the last method."""
        ...
